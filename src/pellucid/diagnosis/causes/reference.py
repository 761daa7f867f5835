"""Causes in the distance of a model from its reference."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit


def _first_distance(view: HistoryView) -> float | None:
    return next((reading.value for reading in view.readings("reference.kl_start")), None)


def other_reference(view: HistoryView) -> Candidate | None:
    """A distance from the reference before the first update."""
    start = _first_distance(view)
    if start is None or start < limit("REF001", "start"):
        return None
    return suspect("REF001", start=start, step=0, severity=None if start > 0.01 else "warn")


def shared_reference(view: HistoryView) -> Candidate | None:
    """A distance from the reference that stays exactly 0."""
    readings = view.readings("reference.kl", after=int(limit("REF002", "updates")))
    moves = view.usual("update.ratio") or view.usual("update.kl_forward")
    if len(readings) < 2 or any(reading.value != 0 for reading in readings) or not moves:
        return None
    return suspect("REF002", updates=readings[-1].step, kl=0.0, step=readings[0].step)


CAUSES: tuple[Cause, ...] = (
    other_reference,
    shared_reference,
    Comparison(
        "REF003",
        "reference.kl",
        (">=", "kl"),
        look="last",
        condition=lambda view: (_first_distance(view) or 0.0) <= 1,
    ),
)
