"""A reading has many numbers: the one that represents them."""

from __future__ import annotations

import math
import statistics
from typing import Literal

from pellucid.vitals.async_metrics import Column

#: Which of a reading's numbers represents it; the largest if not listed.
AGGREGATES: dict[str, Literal["max", "min", "median"]] = {
    "attention.entropy": "min",
    "attention.renyi2": "min",
    "experts.evenness": "min",
    "gradient.faint": "min",
    "experts.entropy": "min",
    "stream.branch_ratio": "min",
    "norm.variance_over_eps": "min",
    "update.ratio": "median",
    "weights.size": "median",
    "update.effective_step": "median",
}
#: Further signs of a reading, shown and not judged.
EXTRA_SIGNS: dict[str, tuple[tuple[str, str], ...]] = {
    "stream.rms": (("stream.size", "max"),),
    "update.ratio": (("update.ratio_low", "min"), ("update.ratio_high", "max")),
}
#: Negative for matrices without such a number (see `NO_VALUE`).
_MATRIX_SIGNS = ("update.effective_step", "update.ratio")


def drop_missing(reading: tuple[Column, list[float]]) -> tuple[Column, list[float]]:
    """A reading without the matrices that have no such number."""
    column, values = reading
    if column.id not in _MATRIX_SIGNS or min(values, default=0.0) >= 0:
        return reading
    pairs = [pair for pair in zip(column.places, values, strict=True) if not pair[1] < 0]
    return Column(column.id, tuple(place for place, _ in pairs)), [value for _, value in pairs]


def summarise(column: Column, values: list[float], aggregate: str) -> tuple[float, str]:
    """The number that represents a reading, and its place; one that is not finite goes first."""
    pairs = list(zip(values, column.places, strict=True))
    for value, place in pairs:
        if not math.isfinite(value):
            return value, place
    if aggregate == "median":
        return statistics.median(values), ""
    return (max if aggregate == "max" else min)(pairs, key=lambda pair: pair[0])


def thinned(points: list[tuple[int, float]], max_points: int = 64) -> list[tuple[int, float]]:
    """At most `max_points` points: if there are more, every other one and the last."""
    return points if len(points) <= max_points else [*points[:-1:2], points[-1]]
