"""Causes that only many ranks have: what they should share, and what each should have of its own.

The marks are those of `pellucid.vitals.ranks`: each compares the rows of all ranks in one update.
"""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect, suspect_mark
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.updates import Sighting
from pellucid.diagnosis.finding import limit


def drifted_weights(view: HistoryView) -> Candidate | None:
    """Weights that differ although the gradients do not."""
    ranks, mark = view.history.ranks, view.history.marks.get("apart")
    if ranks is None or not ranks.weights_differ or mark is None or not mark.n_seen:
        return None
    return suspect("RNK002", value=mark.value, place=view.weights_with("apart"), step=mark.first)


def other_code(view: HistoryView) -> Candidate | None:
    """Versions or code that differ."""
    return _difference(view, "versions", "RNK008/versions") or _difference(
        view, "code", "RNK008/code"
    )


def other_options(view: HistoryView) -> Candidate | None:
    """Settings of the optimiser that differ, or learning rates."""
    candidate = _difference(view, "options", "RNK009")
    mark = view.often("rates_apart", limit("RNK009", "share"))
    if candidate is not None or mark is None:
        return candidate
    return suspect_mark("RNK009/rates", mark)


def same_order(view: HistoryView) -> Candidate | None:
    """A sampler that was never told its epoch."""
    ranks = view.history.ranks
    if ranks is None or ranks.order is None:
        return None
    rows, epoch = ranks.order
    return suspect("RNK010", rows=rows, epoch=epoch, step=0)


def _difference(view: HistoryView, kind: str, key: str) -> Candidate | None:
    ranks = view.history.ranks
    differences = [] if ranks is None else [d for d in ranks.differences if d.kind == kind]
    if not differences:
        return None
    first, n = differences[0], len(differences)
    return suspect(
        key, name=first.name, rank=first.rank, value=first.value, first=first.first, n=n, step=0
    )


CAUSES: tuple[Cause, ...] = (
    Sighting("RNK001", "unshared"),
    drifted_weights,
    Sighting("RNK003", "twins"),
    Sighting("RNK004", "halved"),
    Sighting("RNK005", "summed"),
    Sighting("RNK006", "unweighted"),
    Sighting("RNK007", "alike"),
    other_code,
    other_options,
    same_order,
)
