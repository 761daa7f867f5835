"""Probabilities where a loss expects logits, or where it expects their logarithms."""

from __future__ import annotations

import math

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit


def is_of_probabilities(view: HistoryView) -> bool:
    """Whether the loss takes probabilities for logits.

    Then it falls by little at any rate.
    """
    power = view.first("targets.power")
    return power is not None and power > limit("LOS005", "power")


def of_probabilities(view: HistoryView) -> Candidate | None:
    """A loss of probabilities: it begins at ln V if they are taken for logits."""
    if not is_of_probabilities(view):
        return None
    start, guessing, width = view.start, view.guessing, limit("LOS008", "start")
    # -log softmax(p) lies between ln(V - 1 + e) - 1 and ln(V - 1 + e), whatever a model knows
    gap = None if start is None or guessing is None else guessing - start
    is_softmax = gap is not None and -width < gap < 1 + width
    key = "LOS008/power" if is_softmax else "LOS005/power"
    return suspect(key, value=view.first("targets.power"), start=start, step=1)


def softmax_twice(view: HistoryView) -> Candidate | None:
    """A loss in the narrow band below ln V that remains if probabilities are taken for logits."""
    guessing, start, size = view.guessing, view.start, view.facts.vocab_size
    if guessing is None or start is None or view.end is None or size is None:
        return None
    floor, lowest = math.log(math.e + size - 1) - 1, min(view.losses)
    norm = max((value for _, value in view.history.grad_norms[:5]), default=0.0)
    is_faint = 1e-6 < norm < 0.3 and not view.at_clip(norm)
    outputs = view.history.marks.get("outputs")
    weight = max(view.first("targets.weight") or 0.0, outputs.value if outputs else 0.0)
    if weight > limit("LOS008", "weight"):
        return None  # the gradient is that of a mean of cross-entropies
    if (view.first("targets.smoothing") or 0.0) > limit("LOS013", "smoothing"):
        return None  # it is that of smoothed targets
    power = view.first("targets.power")
    if power is not None and power <= limit("LOS005", "power"):
        return None  # places of any p weigh alike: a cross-entropy that is divided by a number
    in_band = abs(start - guessing) < 0.02 and lowest > floor - 0.02
    if not in_band or not is_faint or view.updates < 20:
        return None
    return suspect("LOS008/history", norm=norm, floor=floor, lowest=lowest, step=1)


CAUSES: tuple[Cause, ...] = (of_probabilities, softmax_twice)
