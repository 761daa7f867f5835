"""Causes of values that are not finite, and of those on their way there."""

from __future__ import annotations

from math import isfinite

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.causes.rates import runaway
from pellucid.diagnosis.finding import limit


def not_finite(view: HistoryView) -> Candidate | None:
    """Where it stopped: overflow, attention over nothing, or not known."""
    stopped = view.history.stopped
    if stopped is None:
        return None
    step, quantity, where = stopped
    if any(at > step + 2 and isfinite(value) for at, value in view.history.losses):
        return None  # it went on
    code, likely, rivals = _explain(view, quantity, where)
    large = view.highest("stream.size")
    return Candidate(
        code=code,
        likely=likely,
        what=f"At update {step}, {quantity} was not finite{f' in {where}' if where else ''}.",
        clues=clue(code, "update", step)
        + clue(code, "stream.size, largest", large.value if large else None)
        + clue(code, "precision", view.facts.precision or view.facts.weights),
        where=where,
        step=step,
        rivals=rivals,
    )


def _explain(view: HistoryView, quantity: str, where: str) -> tuple[str, float, tuple[str, ...]]:
    """{overflow, masked row, learning rate}: by the format, then by what was large before."""
    if "float16" in (view.facts.precision, view.facts.weights):
        return "NUM007", 0.8, ()
    quiet = not runaway(view)
    if quiet and view.history.stopped is not None and view.history.stopped[0] <= 2:
        return "NUM004", 0.7, ("NUM010",)
    if quiet and ("atten" in where or quantity.startswith("attention")):
        return "NUM010", 0.7, ("NUM008",)
    if not quiet:
        return "NUM008", 0.5, ("OPT005",)
    return "NUM008", 0.9, ("NUM010", "OPT005")


def underflow(view: HistoryView) -> Candidate | None:
    """Gradients of exactly zero in float16."""
    zeros = view.lasting("gradient.zeros", lambda v: v > limit("NUM009", "zeros"))
    if zeros is not None and not view.facts.frozen:
        return Candidate(
            code="NUM009",
            likely=0.85,
            what=f"{zeros.value:.1%} of the gradients of matrices are exactly 0.",
            clues=clue("NUM009", "gradient.zeros", zeros.value),
            where="gradients",
            step=zeros.step,
        )
    if "float16" not in (view.facts.precision, view.facts.weights):
        return _mostly_zero(view)
    norms = [value for _, value in view.history.grad_norms]
    if not norms or sum(norm == 0 for norm in norms) < len(norms) / 2:
        return None
    return Candidate(
        code="NUM009",
        likely=0.85,
        what="In most updates every gradient was exactly 0.",
        clues=clue("NUM009", "gradient.norm", 0.0),
        step=view.history.grad_norms[0][0],
    )


def _mostly_zero(view: HistoryView) -> Candidate | None:
    """Steps of Adam's that are far below 1 from the start, though its eps is small.

    Where gradients are not zero, the first is 1 by its formula. Branches that start at zero catch
    up within a few updates.
    """
    steps = [read.value for read in view.readings("update.effective_step", last_step=12)]
    eps = view.facts.eps
    if len(steps) < 3 or eps is None or eps > 1e-6 or view.facts.frozen:
        return None
    if not (0 < steps[0] < 0.5 and max(steps[1:]) < 0.2):
        return None
    return Candidate(
        code="NUM009",
        likely=0.6,
        what=f"Adam's first step was {steps[0]:.2g} times the rate, with an eps of {eps:g}: most "
        "gradients must have been exactly 0.",
        clues=clue("NUM009", "update.effective_step, first", steps[0]),
        step=1,
    )


def growing_scores(view: HistoryView) -> Candidate | None:
    """Scores beyond the limit, and still rising, without a start that explains them."""
    sick = view.lasting("attention.max_logit", lambda v: v > limit("ATT007", "score"), n=2)
    first, last = view.first("attention.max_logit"), view.last("attention.max_logit")
    if sick is None or last is None or (first or 0) > 10:
        return None
    if last < limit("ATT007", "score"):
        return None
    is_sick = last > limit("ATT007", "sick")
    return Candidate(
        code="ATT007",
        likely=0.6 if is_sick else 0.45,
        what=f"The largest score rose to {last:.3g}.",
        clues=clue("ATT007", "attention.max_logit", last),
        where=sick.where,
        step=sick.step,
        severity=None if is_sick or not view.goes_well else "note",
        rivals=("OPT005",),
    )


def drifting_logits(view: HistoryView) -> Candidate | None:
    """log Z far from 0 that goes on."""
    far = view.lasting("logits.log_z", lambda v: abs(v) > limit("LOS012", "log_z"))
    if far is None:
        return None
    last = view.last("logits.log_z") or 0.0
    return Candidate(
        code="LOS012",
        likely=0.7,
        what=f"log Z of the predictions has gone to {last:.3g}.",
        clues=clue("LOS012", "logits.log_z", last),
        where="head",
        step=far.step,
        severity="note" if view.goes_well and abs(last) < limit("LOS012", "far") else None,
    )


def _half_weights(code: str, dtype: str) -> Comparison:
    """Weights that are kept in half precision while they are trained."""
    return Comparison(
        code=code,
        number=lambda view: view.facts.weights,
        rule=("is", dtype),
        likely=0.75,
        what="Weights are kept in {value}, so small updates of them are lost.",
        label="dtype of the weights",
        also={"update.ratio": lambda view: view.usual("update.ratio")},
        where="weights",
        step=0,
    )


CAUSES: tuple[Cause, ...] = (
    not_finite,
    underflow,
    _half_weights("NUM001", "bfloat16"),
    _half_weights("NUM005", "float16"),
    growing_scores,
    drifting_logits,
)
