"""Causes of values that are not finite, or will soon be."""

from __future__ import annotations

from math import inf, isfinite

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.rates import find_runaways
from pellucid.diagnosis.finding import limit

#: So many norms in a row that are not finite end a training.
_LAST_NORMS = 3
#: A step that is 0 / 0 shows at once: some row of a table has no gradient yet.
_FIRST_STEPS = 2
#: So many losses of exactly 0 are no chance.
_AT_REST = 10


def not_finite(view: HistoryView) -> Candidate | None:
    """The end of a training: an overflow, attention over no key, or an unknown cause."""
    stopped = view.history.stopped
    if stopped is None:
        return None
    step, quantity, place = stopped
    norms = [value for _, value in view.history.grad_norms[-_LAST_NORMS:]]
    # some trainers log another number in the place of a loss that is none
    is_over = len(norms) == _LAST_NORMS and not any(map(isfinite, norms))
    if not is_over and any(s > step + 2 and isfinite(v) for s, v in view.history.losses):
        return None  # the training continued
    if quantity == "loss" and _learns_by_gradients(view):
        return suspect("LOS005/nan", n=len(view.losses), step=step)
    module = f" in {place}" if place else ""
    eps, is_at_once = view.facts.eps or inf, step <= _FIRST_STEPS
    if view.facts.weights == "float16" and is_at_once and eps < limit("NUM003", "eps"):
        return suspect("NUM003/history", eps=eps, quantity=quantity, inside=module, step=step)
    code, likely, rivals = _explain(view, quantity, place)
    size = view.highest("stream.size")
    return suspect(
        "NUM008",
        likely,
        code=code,
        quantity=quantity,
        inside=module,
        size=size.value if size else None,
        precision=view.facts.precision or view.facts.weights,
        place=place,
        step=step,
        rivals=rivals,
    )


def _learns_by_gradients(view: HistoryView) -> bool:
    """Whether no loss is a number, and all gradients and steps are: so are the outputs then."""
    norms = [norm for _, norm in view.history.grad_norms]
    strides = view.history.marks.get("stride")
    is_nan = len(view.losses) >= _AT_REST and view.nan_share == 1
    if not is_nan or strides is None or strides.n_seen < _LAST_NORMS:
        return False
    return any(norms) and all(map(isfinite, [*norms, *strides.values]))


def _explain(view: HistoryView, quantity: str, place: str) -> tuple[str, float, tuple[str, ...]]:
    """The code, its likelihood and its rivals, from the format and the values before the end."""
    if "float16" in (view.facts.precision, view.facts.weights):
        return "NUM007", 0.8, ()
    if find_runaways(view):
        return "NUM008", 0.5, ("OPT005",)
    if view.history.stopped is not None and view.history.stopped[0] <= _FIRST_STEPS:
        return "NUM004", 0.7, ("NUM010",)
    if "atten" in place or quantity.startswith("attention"):
        return "NUM010", 0.7, ("NUM008",)
    return "NUM008", 0.9, ("NUM010", "OPT005")


def underflow(view: HistoryView) -> Candidate | None:
    """Gradients of exactly zero: in float16, or of a loss that is exactly zero too."""
    zeros = view.lasting("gradient.zeros", lambda v: v > limit("NUM009", "zeros"))
    is_half = "float16" in (view.facts.precision, view.facts.weights)
    # rounding leaves a few; without any the loss itself is weighed by 0
    is_all = zeros is not None and zeros.value == 1
    # the loss of a policy is 0 by design, and its gradient is when it has learnt all
    is_from_start = all(reading.value == 1 for reading in view.readings("gradient.zeros"))
    is_at_rest = not any(view.losses[:_AT_REST]) and len(view.losses) >= _AT_REST
    if is_all and is_from_start and is_at_rest:
        return suspect("RLH001/zero", loss=0.0, step=view.steps[0])
    if zeros is not None and not view.facts.frozen and (is_half or not is_all):
        return suspect("NUM009", zeros=zeros.value, step=zeros.step)
    if not is_half:
        return _mostly_zero(view)
    norms = view.history.grad_norms
    if not norms or sum(norm == 0 for _, norm in norms) < len(norms) / 2:
        return None
    return suspect("NUM009/norm", norm=0.0, step=norms[0][0])


def _mostly_zero(view: HistoryView) -> Candidate | None:
    """Steps of Adam far below 1 from the start, with a small eps.

    By Adam's formula the first step is 1 unless the gradient is zero. Branches that start at zero
    need only a few updates to catch up. RAdam's first steps are not divided: there the gradient's
    own zeros, if they were counted, tell.
    """
    steps = [reading.value for reading in view.readings("update.effective_step", last_step=12)]
    eps, zeros = view.facts.eps, view.first("gradient.zeros")
    if len(steps) < 3 or eps is None or eps > 1e-6 or view.facts.frozen:
        return None
    if not (0 < steps[0] < 0.5 and max(steps[1:]) < 0.2):
        return None
    if zeros is not None and zeros < limit("NUM009", "first"):
        return None
    return suspect("NUM009/first step", first=steps[0], eps=eps, step=1)


def growing_scores(view: HistoryView) -> Candidate | None:
    """Scores above the limit, without large scores at the start."""
    largest = limit("ATT007", "score")
    reading = view.lasting("attention.max_logit", lambda v: v > largest, n=2)
    first, last = view.first("attention.max_logit"), view.last("attention.max_logit")
    if reading is None or last is None or (first or 0) > 10 or last < largest:
        return None
    is_sick = last > limit("ATT007", "sick")
    return suspect(
        "ATT007",
        0.6 if is_sick else 0.45,
        score=last,
        place=reading.place,
        step=reading.step,
        severity=None if is_sick or not view.goes_well else "note",
    )


def drifting_logits(view: HistoryView) -> Candidate | None:
    """log Z that stays far from 0."""
    drift = view.lasting("logits.log_z", lambda v: abs(v) > limit("LOS012", "log_z"))
    if drift is None:
        return None
    last = view.last("logits.log_z") or 0.0
    is_mild = view.goes_well and abs(last) < limit("LOS012", "far")
    return suspect("LOS012", log_z=last, step=drift.step, severity="note" if is_mild else None)


def _usual_update(view: HistoryView) -> float | None:
    return view.usual("update.ratio")


def short_weights(view: HistoryView) -> Candidate | None:
    """Weights in bfloat16: a note if the loss falls and most numbers of each step arrive."""
    if view.facts.weights != "bfloat16":
        return None
    mark = view.history.marks.get("lost")
    arrives = (
        mark is not None
        and mark.n_seeable >= limit("UPD003", "times")
        and mark.share * mark.value < limit("NUM001", "share")
    )
    return suspect(
        "NUM001/history",
        value=view.facts.weights,
        update=_usual_update(view),
        step=0,
        severity="note" if arrives and view.goes_well else None,
    )


CAUSES: tuple[Cause, ...] = (
    not_finite,
    underflow,
    short_weights,
    Comparison(
        "NUM005/history", "facts.weights", ("is", "float16"), further={"update": _usual_update}
    ),
    growing_scores,
    drifting_logits,
)
