"""Causes that only many ranks have: what they should share, and what each should have of its own.

The marks are those of `pellucid.vitals.ranks`: each compares the rows of all ranks in one update.
"""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.updates import Sighting, likelihood
from pellucid.diagnosis.finding import limit
from pellucid.vitals import MarkName


def unshared(view: HistoryView) -> Candidate | None:
    """Gradients that differ between ranks, and so do the weights after the step."""
    ranks = view.history.ranks
    mark = view.often("unshared", limit("RNK001", "share"))
    if mark is None or ranks is None:
        return None
    return suspect(
        "RNK001",
        likelihood(mark),
        times=mark.n_seen,
        n=mark.n_seeable,
        value=mark.value,
        place=_names(view, "unshared"),
        step=mark.first,
    )


def drifted_weights(view: HistoryView) -> Candidate | None:
    """Weights that differ although the gradients do not."""
    ranks, mark = view.history.ranks, view.history.marks.get("apart")
    if ranks is None or not ranks.weights_differ or mark is None or not mark.n_seen:
        return None
    return suspect("RNK002", value=mark.value, place=_names(view, "apart"), step=mark.first)


def wrong_size(view: HistoryView, name: MarkName, code: str) -> Candidate | None:
    """Gradients that are the ranks' mean, times or over the number of ranks.

    Args:
        view: the training.
        name: the mark.
        code: the cause.
    """
    ranks, mark = view.history.ranks, view.often(name, limit(code, "share"))
    if ranks is None or mark is None:
        return None
    return suspect(code, likelihood(mark), value=mark.value, ranks=ranks.size, step=mark.first)


def averaged_twice(view: HistoryView) -> Candidate | None:
    """Gradients that are divided by the number of ranks once too often."""
    return wrong_size(view, "halved", "RNK004")


def summed(view: HistoryView) -> Candidate | None:
    """Gradients that nobody divides by the number of ranks."""
    return wrong_size(view, "summed", "RNK005")


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
    return suspect(
        "RNK009/rates", times=mark.n_seen, n=mark.n_seeable, value=mark.value, step=mark.first
    )


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


def _names(view: HistoryView, mark: MarkName) -> str:
    """Some of the weights that a mark was seen in."""
    ranks = view.history.ranks
    names = [] if ranks is None else list(ranks.places.get(mark, ()))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


CAUSES: tuple[Cause, ...] = (
    unshared,
    drifted_weights,
    Sighting("RNK003", "twins"),
    averaged_twice,
    summed,
    Sighting("RNK006", "unweighted"),
    Sighting("RNK007", "alike"),
    other_code,
    other_options,
    same_order,
)
