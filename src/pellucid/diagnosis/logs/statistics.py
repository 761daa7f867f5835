"""The curves of a log, and simple statistics of curves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pellucid.diagnosis.history.history import Facts, Points


@dataclass(frozen=True, slots=True)
class Log:
    """The curves of a log, with NaN and infinity.

    `resumed` are the updates from which the training was resumed; `epochs` are fractions of passes
    over the data, in the order of rows. The loss is multiplied by `loss_scale` for its gradient;
    `lowest_held_out` are the lowest held-out losses until then, where the log says so.
    """

    loss: Points = ()
    held_out: Points = ()
    grad_norm: Points = ()
    rate: Points = ()
    loss_scale: Points = ()
    lowest_held_out: Points = ()
    epochs: Points = ()
    resumed: tuple[int, ...] = ()
    facts: Facts = field(default_factory=Facts)

    @property
    def losses(self) -> Points:
        """The finite losses before the update at which the training broke down."""
        end = math.inf if self.stopped is None else self.stopped[0]
        return tuple((step, v) for step, v in self.loss if math.isfinite(v) and step < end)

    @property
    def stopped(self) -> tuple[int, str, str] | None:
        """The first update from which no loss is finite, or else no gradient norm.

        A single norm that is not finite is an update that a scaler of gradients skipped: two at
        the end count, or one that is all of a log without losses, or one without a scaler.

        Some trainers log 0 for a loss that is not finite: a loss of exactly 0 counts as one if the
        gradient norm of the update is not finite either, or if the loss before it was not finite.
        """
        norms = dict(self.grad_norm)
        first: int | None = None
        for step, value in self.loss:
            hidden = value == 0 and (first is not None or not math.isfinite(norms.get(step, 0.0)))
            if math.isfinite(value) and not hidden:
                first = None
            elif first is None:
                first = step
        if first is not None:
            return first, "loss", ""
        finite = [i for i, (_, norm) in enumerate(self.grad_norm) if math.isfinite(norm)]
        ending = self.grad_norm[finite[-1] + 1 if finite else 0 :]
        is_all = not self.loss and not finite
        has_no_scaler = bool(self.loss_scale) and all(scale == 1 for _, scale in self.loss_scale)
        if not ending:
            return None
        step = ending[0][0]
        return (step, "gradient", "") if len(ending) > 1 or is_all or has_no_scaler else None

    @property
    def in_tokens(self) -> bool:
        """Whether the loss predicts tokens, as far as pellucid knows the objective."""
        return self.facts.objective in (None, "NextToken", "SFT")


def values(points: Points) -> list[float]:
    """The finite values of a curve, without their steps."""
    return [value for _, value in points if math.isfinite(value)]


def ends(points: Points, share: float = 0.2, least: int = 3) -> tuple[float, float]:
    """The medians of the first and of the last part of a curve.

    Args:
        points: the curve.
        share: the part, as a share of the values.
        least: the part has at least so many values.
    """
    numbers = values(points)
    n = max(least, round(len(numbers) * share))
    return statistics.median(numbers[:n]), statistics.median(numbers[-n:])


def noise(numbers: Sequence[float]) -> float:
    """The standard deviation from point to point, independent of trends and jumps."""
    steps = [abs(b - a) for a, b in pairwise(numbers)]
    return 1.4826 * statistics.median(steps) / math.sqrt(2) if steps else 0.0


def bend(numbers: Sequence[float]) -> float:
    """How far a number usually is from a line through its neighbours: a steady rise has none.

    The median size of second differences; 0 of fewer than three numbers.
    """
    bends = [abs(a - 2 * b + c) for a, b, c in zip(numbers, numbers[1:], numbers[2:], strict=False)]
    return statistics.median(bends) if bends else 0.0


def smoothed(points: Points, width: int) -> list[tuple[int, float]]:
    """The median of each `width` points in a row, with the step of the last."""
    finite = [(step, value) for step, value in points if math.isfinite(value)]
    return [
        (finite[i][0], statistics.median(value for _, value in finite[i - width + 1 : i + 1]))
        for i in range(width - 1, len(finite))
    ]
