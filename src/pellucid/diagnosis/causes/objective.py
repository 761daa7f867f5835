"""Causes in the loss itself: summed, the wrong sign, softmax twice, something else than it seems.

The first look's rows are of the first batch, so that the first reported loss and -log p on these
rows are about the same number, if the loss is what it should be.
"""

from __future__ import annotations

import math

from pellucid.diagnosis.causes.candidate import Candidate
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import Evidence, limit

#: -log p on the first rows, in nats, below which its multiples tell nothing.
_LEAST = 0.1


def summed(view: HistoryView) -> Candidate | None:
    """A reported loss that is many times -log p: as many as there are tokens, or parts."""
    ratio = _reported(view)
    if ratio is None or ratio < 1.8:
        return None
    parts = abs(ratio - round(ratio)) < 0.06 * ratio and ratio < 33
    code = "LOS007" if parts else "LOS006"
    return Candidate(
        code=code if ratio > 20 or parts else "LOS005",
        likely=0.85 if ratio > 20 or parts else 0.6,
        what=f"The reported loss is {ratio:.4g} times -log p of the targets.",
        clues=clue(code, "reported loss over -log p", ratio),
        where="loss",
        step=1,
        rivals=("LOS006",) if parts and ratio > 8 else (),
    )


def parted(view: HistoryView) -> Candidate | None:
    """A loss that goes to nothing while -log p of the next token does not come along."""
    probe, end = view.last("loss.probe"), view.end
    if probe is None or end is None or not view.fresh or _reported(view) is None:
        return None
    if (view.start or 0) > limit("LOS001", "loud") * (view.guessing or math.inf):
        return None  # weights that begin far too large leave first rows behind them as well
    if view.readings("loss.probe")[-1].step < 0.8 * view.steps[-1]:
        return None  # what was measured long ago says nothing of the loss of now
    ceiling = min(view.guessing or 0, limit("LOS001", "share") * probe)
    if end > ceiling or probe - end < limit("LOS001", "gap"):
        return None
    return Candidate(
        code="LOS001",
        likely=0.75,
        what=f"The reported loss fell to {end:.2g}, while -log p of the next token is {probe:.3g}: "
        "what is learnt is something else than the next token.",
        clues=(Evidence("loss over -log p", end / probe, "about 1", "by definition"),),
        where="labels",
        step=view.updates,
        severity="fault",  # labels were not seen: nothing that only curves tell is fatal
    )


def climbing(view: HistoryView) -> Candidate | None:
    """A loss that rises from the first update on, and steadily."""
    n, guessing, start = len(view.losses) // 4, view.guessing, view.start
    if n < 10 or guessing is None or start is None or view.end is None:
        return None
    quarters = [sum(view.losses[i * n : (i + 1) * n]) / n for i in range(4)]
    rises = sorted(quarters) == quarters and quarters[-1] > 3 * guessing
    if not rises or min(view.losses) < start - 0.5 or start > 2 * guessing:
        return None
    return Candidate(
        code="LOS009",
        likely=0.8,
        what=f"The loss rises steadily, from {start:.3g} to {view.end:.3g}, and never fell: "
        "it is made larger instead of smaller.",
        clues=(Evidence("loss", view.end, f"below {start:.3g}", "by definition"),),
        where="loss",
        step=view.steps[0],
        rivals=("OPT005",),
    )


def turned(view: HistoryView) -> Candidate | None:
    """A loss below zero, of an objective whose loss cannot be."""
    negative = [(s, v) for s, v in view.history.losses if v < -0.05]
    if view.facts.objective in ("PolicyGradient", "DPO") or len(negative) < 3:
        return None
    return Candidate(
        code="LOS009",
        likely=0.95,
        what=f"The loss is {negative[0][1]:.3g} at update {negative[0][0]}; -log p never is.",
        clues=clue("LOS009", "loss", negative[-1][1]),
        where="loss",
        step=negative[0][0],
    )


def softmax_twice(view: HistoryView) -> Candidate | None:
    """A loss that cannot leave the narrow band below ln V that probabilities as logits allow."""
    guessing, start, size = view.guessing, view.start, view.facts.vocab_size
    if guessing is None or start is None or view.end is None or size is None:
        return None
    floor = math.log(math.e + size - 1) - 1
    norms = [value for _, value in view.history.grad_norms[:5]]
    faint = bool(norms) and 1e-6 < max(norms) < 0.3 and not view.at_clip(max(norms))
    in_band = abs(start - guessing) < 0.02 and min(view.losses) > floor - 0.02
    if not in_band or not faint or view.updates < 20:
        return None
    return Candidate(
        code="LOS008",
        likely=0.85,
        what=f"The loss begins at exactly ln V with a gradient norm of {max(norms):.2g}, and stays "
        f"above {floor:.3g}, the least that is possible for probabilities taken as logits.",
        clues=(
            Evidence("gradient.norm, first", max(norms), "above 0.3", "measured: 5 to 7"),
            Evidence("lowest loss", min(view.losses), f"below {floor:.3g}", "by the formula"),
        ),
        where="loss",
        step=1,
    )


def diluted(view: HistoryView) -> Candidate | None:
    """A reported loss below -log p of the targets: something that is easy is counted."""
    ratio = _reported(view)
    if ratio is None or not 0.02 < ratio < 0.8:
        return None
    return Candidate(
        code="LOS010",
        likely=0.6,
        what=f"The reported loss is only {ratio:.2f} times -log p of the targets.",
        clues=clue("LOS010", "reported loss over -log p", ratio),
        where="loss",
        step=1,
        rivals=("LOS005",),
    )


def other_terms(view: HistoryView) -> Candidate | None:
    """Other terms than -log p that are much of the loss, by the config or by the numbers."""
    run, ratio = view.history.config, _reported(view)
    smoothing, z_loss = (
        0.0 if run is None else float(getattr(run.objective, name, 0.0))
        for name in ("label_smoothing", "z_loss")
    )
    heavy = smoothing > limit("LOS013", "smoothing") or z_loss > limit("LOS013", "z_loss")
    is_raised = ratio is not None and 1 + limit("LOS013", "share") < ratio < 1.8
    probe, end = view.last("loss.probe"), view.end
    if ratio is not None and probe and end and (view.facts.dropout or 0) < 0.15:
        ratio = end / probe if abs(ratio - 1) < 0.1 else ratio
        is_raised = is_raised or (
            ratio > 1.35 and end - probe > 0.8 and probe < (view.guessing or 0) - 0.3
        )
    if not heavy and not is_raised:
        return None
    return Candidate(
        code="LOS013",
        likely=0.97 if heavy else 0.6,
        what=f"Label smoothing is {smoothing:g} and z-loss {z_loss:g}."
        if heavy
        else f"The reported loss is {ratio:.3g} times -log p of the targets.",
        clues=clue("LOS013", "label smoothing", smoothing if heavy else None)
        + clue("LOS013", "z-loss", z_loss if heavy else None)
        + clue("LOS013", "reported loss over -log p", ratio),
        where="objective",
        step=0,
        rivals=() if heavy else ("LOS005",),
    )


def _reported(view: HistoryView) -> float | None:
    """The first reported loss over -log p on the first rows; None where either is not known.

    Where -log p is next to nothing, dropout alone makes the reported loss a multiple of it.
    """
    probe, start = view.first("loss.probe"), view.start
    plain = view.facts.objective in (None, "NextToken", "Seq2Seq")
    if not plain or probe is None or probe < _LEAST or start is None or view.steps[0] > 2:
        return None
    return start / probe if math.isfinite(start) else None


CAUSES = (summed, parted, climbing, turned, softmax_twice, diluted, other_terms)
