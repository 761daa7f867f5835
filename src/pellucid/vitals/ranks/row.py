"""A row: what one rank did in one update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

#: Of the first gradient vector, so many numbers are kept.
NUMBERS = 64
#: Rows of the batch that get a checksum.
TEXTS = 8
#: Marks a number that an update does not have.
UNKNOWN = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """What one rank did in one update.

    Attributes:
        step: the update.
        weights: the norm of each group of weights after it.
        gradients: the norm of each group's gradient, as the optimiser used it.
        before: the norm of all weights before it.
        arrived: numbers of a gradient as this rank's own backward passes made it.
        used: the same numbers as the optimiser used them.
        texts: checksums of the first rows of its last batch.
        paid: how many places the loss pays for.
        weight: what they all weigh in the gradient, 1 for a mean; `UNKNOWN` for other losses.
        generator: a checksum of the random generator before the first forward pass.
        draws: whether that pass drew random numbers.
        rates: the learning rate of each group of the optimisers.
    """

    step: int
    weights: Sequence[float]
    gradients: Sequence[float]
    before: float
    arrived: Sequence[float]
    used: Sequence[float]
    texts: Sequence[float]
    paid: float
    weight: float
    generator: int
    draws: bool
    rates: Sequence[float]

    def message(self) -> dict[str, Any]:
        """The row as plain values, rounded to what a float32 holds."""
        return {name: _rounded(value) for name, value in asdict(self).items()}


def row_of(message: dict[str, Any]) -> RankRow:
    """The row in a message of another rank; numbers that are not finite come as texts."""
    return RankRow(**{name: _numbers(value) for name, value in message.items()})


def weights_row(step: int, weights: Sequence[float]) -> RankRow:
    """A row of weights alone: after the last update.

    Args:
        step: finished updates.
        weights: the norm of each group.
    """
    unknown = (UNKNOWN,)
    return RankRow(
        step=step,
        weights=weights,
        gradients=[UNKNOWN] * len(weights),
        before=UNKNOWN,
        arrived=unknown,
        used=unknown,
        texts=unknown,
        paid=UNKNOWN,
        weight=math.nan,
        generator=0,
        draws=False,
        rates=(),
    )


def is_due(step: int) -> bool:
    """Whether all ranks measure this update: often at first, then two of 8 and two of 32."""
    interval = 1 if step <= 8 else 8 if step <= 64 else 32
    return step % interval < 2


def _rounded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in cast("list[Any]", value)]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_numbers(item) for item in cast("list[Any]", value)]
    return float(value) if isinstance(value, str) else value
