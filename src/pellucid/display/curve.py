"""A curve in braille: each character is a cell of 2 by 4 dots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_BLANK = 0x2800
#: The bit of the dot at (row, column) of a cell.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


class History:
    """The averages of equal stretches of a growing series, at most `limit` of them.

    If there would be more, neighbours are merged: so the curve of a long run costs no more time.
    """

    def __init__(self, limit: int = 2048) -> None:
        self.averages: list[float] = []
        self._limit = limit
        self._stretch = 1
        self._waiting: list[float] = []

    def add(self, values: Iterable[float]) -> None:
        """Add the next values."""
        for value in values:
            self._waiting.append(value)
            if len(self._waiting) == self._stretch:
                self.averages.append(sum(self._waiting) / self._stretch)
                self._waiting.clear()
            if len(self.averages) == self._limit:
                pairs = zip(self.averages[::2], self.averages[1::2], strict=True)
                self.averages = [(a + b) / 2 for a, b in pairs]
                self._stretch *= 2


def braille(
    values: Sequence[float],
    columns: int,
    rows: int,
    ends: tuple[float, float] | None = None,
) -> list[str]:
    """The values from left to right, the smallest at the bottom; each dot column is a mean.

    Args:
        values: the values.
        columns: the characters of a line.
        rows: the lines.
        ends: the values at the bottom and at the top; the curve is then one line without gaps. By
            default the smallest and the largest, with one dot in each dot column.
    """
    values = [value for value in values if math.isfinite(value)]
    cells = [[_BLANK] * columns for _ in range(rows)]
    if values:
        width = min(len(values), 2 * columns)
        heights = [
            _mean(values, i * len(values) // width, (i + 1) * len(values) // width)
            for i in range(width)
        ]
        low, high = ends or (min(heights), max(heights))
        span = (high - low) or 1.0
        places = [round((high - height) / span * (4 * rows - 1)) for height in heights]
        for x, y in enumerate(places):
            before = places[x - 1] if x and ends else y
            step = 1 if before < y else -1
            for dot in (y, *range(before + step, y, step)):
                cells[dot // 4][x // 2] |= _DOTS[dot % 4][x % 2]
    return ["".join(map(chr, row)) for row in cells]


def _mean(values: Sequence[float], start: int, end: int) -> float:
    part = values[start : max(end, start + 1)]
    return sum(part) / len(part)
