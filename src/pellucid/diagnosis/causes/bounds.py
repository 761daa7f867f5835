"""Causes in bounds and noise, as the ledger of updates saw them in many updates."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, suspect_mark
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.updates import likelihood
from pellucid.diagnosis.finding import limit


def weights_at_bound(view: HistoryView) -> Candidate | None:
    """Weights of which many have the largest magnitude of their matrix."""
    mark = view.often("weight_bound", limit("UPD012", "share"))
    return None if mark is None else suspect_mark("UPD012", mark, likelihood(mark))


def gradients_at_bound(view: HistoryView) -> Candidate | None:
    """Gradients of which many have the largest magnitude of their matrix.

    A note while the training goes well: Adam divides each gradient by its own size anyway.
    """
    mark = view.often("gradient_bound", limit("UPD012", "share"))
    if mark is None:
        return None
    severity = "note" if view.goes_well and view.facts.betas is not None else None
    return suspect_mark("UPD012/gradients", mark, likelihood(mark), severity=severity)


def noisy_gradients(view: HistoryView) -> Candidate | None:
    """Gradients to which something is added after the backward pass; a note if it is short.

    Of many ranks, each one's own gradients are no more than a part of the mean.
    """
    mark = view.often("noise", limit("UPD011", "share"))
    if mark is None or mark.n_seen < limit("UPD011", "noises") or view.history.ranks is not None:
        return None
    severity = "warn" if mark.value > limit("UPD011", "noise") else "note"
    return suspect_mark("UPD011/noise", mark, likelihood(mark), severity=severity)


CAUSES: tuple[Cause, ...] = (
    weights_at_bound,
    gradients_at_bound,
    noisy_gradients,
    Comparison("LOS005/gap", "targets.gap", (">", "balance"), n=2),
)
