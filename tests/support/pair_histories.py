"""Histories of trainings on answers and pairs, from a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pellucid.diagnosis import Facts, History, Reading
from pellucid.vitals import Mark

UPDATES = 60


def points(values: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """Values by their step, from 1."""
    return tuple(enumerate(values, start=1))


def mark(value: float, n: int = UPDATES, n_seeable: int | None = None) -> Mark:
    """A mark of the first `n` updates, all with one value."""
    return Mark(n, n_seeable or n, 1, [value] * n, list(range(1, n + 1)))


def history(
    objective: str | None,
    losses: Sequence[float] = (0.6,) * UPDATES,
    columns: Mapping[str, Sequence[float]] | None = None,
    signs: Mapping[str, float] | None = None,
    marks: Mapping[str, Mark] | None = None,
    rates: Sequence[float] = (),
    norms: Sequence[float] = (),
    **facts: Any,
) -> History:
    """A history with these numbers; signs are readings of the first update."""
    settings: dict[str, Any] = {"objective": objective, "pretrained": True} | facts
    return History(
        name="loop",
        losses=points(losses),
        rates=points(rates),
        grad_norms=points(norms),
        facts=Facts(**settings),
        signs={id: (Reading(1, value, "calm"),) for id, value in (signs or {}).items()},
        measures={name: points(values) for name, values in (columns or {}).items()},
        marks=marks or {},  # pyright: ignore[reportArgumentType]
    )
