"""Axes: the positions of ticks, and the position of a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pellucid.display.numbers import short


@dataclass(frozen=True, slots=True)
class Axis:
    """A range with its ticks; on a logarithmic axis the ticks are powers of ten."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """The position of a value: 0 at the low end, 1 at the high end."""
        if self.logarithmic:
            low, high = math.log10(self.low), math.log10(self.high)
            return (math.log10(max(value, self.low)) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)


def axis_for(values: Iterable[float], *, from_zero: bool = False) -> Axis:
    """A linear axis that holds all values, with three to seven ticks at round numbers."""
    numbers = list(values) or [0.0, 1.0]
    low, high = min(numbers), max(numbers)
    if from_zero:
        low = min(low, 0.0)
    if high - low <= 1e-9 * max(abs(high), abs(low)):
        margin = abs(high) / 10 or 1.0
        low, high = (low if from_zero and low == 0 else low - margin), high + margin
    width = _round_width((high - low) / 4)
    first, last = math.floor(low / width + 1e-9), math.ceil(high / width - 1e-9)
    ticks = tuple(i * width for i in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def steps_axis(last: int) -> Axis:
    """The axis of steps: from 0 to the last one, ticks at round numbers."""
    last = max(last, 1)
    width = max(1, round(_round_width(last / 4)))
    return Axis(0, last, tuple(range(0, last + 1, width)))


def log_axis_for(values: Iterable[float]) -> Axis:
    """A logarithmic axis from one power of ten to another; the values are above zero."""
    numbers = list(values)
    first = math.floor(math.log10(min(numbers)))
    last = max(math.ceil(math.log10(max(numbers))), first + 1)
    return Axis(
        10.0**first, 10.0**last, tuple(10.0**i for i in range(first, last + 1)), logarithmic=True
    )


def grid_lines(
    level: Axis,
    upright: Axis,
    *,
    x: Callable[[float], float],
    y: Callable[[float], float],
    box: tuple[int, int, int],
    last_anchor: str = "middle",
) -> list[str]:
    """The ticks of two axes with their labels as SVG, and the line of the level axis.

    Args:
        level: the axis from left to right.
        upright: the axis from below.
        x: the place of a value of `level`.
        y: the place of a value of `upright`.
        box: the left, right and bottom edge of the plot.
        last_anchor: of the label of a tick at the right edge.
    """
    left, right, bottom = box
    parts: list[str] = []
    for tick in upright.ticks:
        parts.append(f'<path class="grid" d="M{left} {y(tick):.1f}H{right}"/>')
        parts.append(
            f'<text class="tick" x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">'
            f"{label(tick)}</text>"
        )
    for tick in level.ticks:
        parts.append(f'<path class="axis" d="M{x(tick):.1f} {bottom}v4"/>')
        anchor = last_anchor if x(tick) > right - 8 else "middle"
        parts.append(
            f'<text class="tick" x="{x(tick):.1f}" y="{bottom + 17}" text-anchor="{anchor}">'
            f"{label(tick)}</text>"
        )
    parts.append(f'<path class="axis" d="M{left} {bottom}H{right}"/>')
    return parts


def label(value: float) -> str:
    """A tick's label: 0, 0.5, 2k, 3e-4."""
    if value == 0:
        return "0"
    if abs(value) < 0.01:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return short(round(value, 10))


def _round_width(width: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `width`."""
    power = 10.0 ** math.floor(math.log10(width))
    return next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= width * (1 - 1e-9))
