"""A reading's many numbers, and the one that stands for them."""

from __future__ import annotations

import math
import statistics
from typing import Literal

from pellucid.vitals.async_metrics import Column

#: Which of a reading's places stands for it.
TAKE: dict[str, Literal["max", "min", "median"]] = {
    "attention.entropy": "min",
    "attention.renyi2": "min",
    "stream.branch_ratio": "min",
    "norm.variance_over_eps": "min",
    "update.ratio": "median",
    "weights.size": "median",
    "update.effective_step": "median",
}
#: What else is shown of a reading, and not judged.
SHOWN: dict[str, tuple[tuple[str, str], ...]] = {
    "stream.rms": (("stream.size", "max"),),
    "update.ratio": (("update.ratio_low", "min"), ("update.ratio_high", "max")),
}
#: Negative at matrices that have no such number (see `Updates`).
_MOVED = ("update.effective_step", "update.ratio")


def measured(reading: tuple[Column, list[float]]) -> tuple[Column, list[float]]:
    """A reading without the places that have no such number."""
    column, values = reading
    if column.id not in _MOVED or min(values, default=0.0) >= 0:
        return reading
    at = [pair for pair in zip(column.places, values, strict=True) if not pair[1] < 0]
    return Column(column.id, tuple(place for place, _ in at)), [value for _, value in at]


def taken(column: Column, values: list[float], take: str) -> tuple[float, str]:
    """The number that stands for a reading, and its place; one that is not finite goes first."""
    at = list(zip(values, column.places, strict=True))
    for value, place in at:
        if not math.isfinite(value):
            return value, place
    if take == "median":
        return statistics.median(values), ""
    return (max if take == "max" else min)(at, key=lambda pair: pair[0])


def thinned(points: list[tuple[int, float]], most: int = 64) -> list[tuple[int, float]]:
    """At most so many points: when there would be more, every other one, and the last."""
    return points if len(points) <= most else [*points[:-1:2], points[-1]]
