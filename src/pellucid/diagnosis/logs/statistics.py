"""The curves of a log, and the plain statistics that are asked of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pellucid.diagnosis.history.history import Facts, Points


@dataclass(frozen=True, slots=True)
class Log:
    """Curves as they were logged: values that are no numbers are still among them.

    `resumed` are the updates from which a training was taken up again; `epochs` are fractions of
    passes over the data, in the order of rows.
    """

    loss: Points = ()
    held_out: Points = ()
    grad_norm: Points = ()
    rate: Points = ()
    epochs: Points = ()
    resumed: tuple[int, ...] = ()
    facts: Facts = field(default_factory=Facts)

    @property
    def losses(self) -> Points:
        """The losses that are numbers, up to where training stopped being one."""
        end = math.inf if self.stopped is None else self.stopped[0]
        return tuple((step, v) for step, v in self.loss if math.isfinite(v) and step < end)

    @property
    def stopped(self) -> tuple[int, str, str] | None:
        """Where the loss is no number from then on; or 0, as some trainers log what is none.

        A loss of exactly 0 is no number where the norm is none, and after a loss that was none.
        """
        norms = dict(self.grad_norm)
        first: int | None = None
        for step, value in self.loss:
            hidden = value == 0 and (first is not None or not math.isfinite(norms.get(step, 0.0)))
            if math.isfinite(value) and not hidden:
                first = None
            elif first is None:
                first = step
        return None if first is None else (first, "loss", "")

    @property
    def in_tokens(self) -> bool:
        """Whether the loss is, as far as is known, one of guessing tokens."""
        return self.facts.objective in (None, "NextToken", "SFT")


def values(points: Points) -> list[float]:
    """The numbers of a curve, without their steps."""
    return [value for _, value in points if math.isfinite(value)]


def ends(points: Points, share: float = 0.2, least: int = 3) -> tuple[float, float]:
    """The median of the first and of the last part of a curve."""
    numbers = values(points)
    n = max(least, round(len(numbers) * share))
    return statistics.median(numbers[:n]), statistics.median(numbers[-n:])


def noise(numbers: Sequence[float]) -> float:
    """The standard deviation from point to point, which neither a trend nor a jump disturbs."""
    steps = [abs(b - a) for a, b in pairwise(numbers)]
    return 1.4826 * statistics.median(steps) / math.sqrt(2) if steps else 0.0


def smoothed(points: Points, width: int) -> list[tuple[int, float]]:
    """The median of each `width` points in a row, with the step of the last."""
    finite = [(step, value) for step, value in points if math.isfinite(value)]
    return [
        (finite[i][0], statistics.median(value for _, value in finite[i - width + 1 : i + 1]))
        for i in range(width - 1, len(finite))
    ]
