"""A plot in characters: a curve in braille, numbers on both axes, marks of a second series."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text

from pellucid.display.curve import braille
from pellucid.display.numbers import short

#: A place and a value there.
Point = tuple[float, float]

#: Columns of the numbers at the left, with the line of the axis.
_AXIS_COLUMNS = 8
_MARK, _LINE = "●", "cyan"
_MARK_STYLE = "yellow"


def plot(
    line: Sequence[Point],
    marks: Sequence[Point],
    size: tuple[int, int],
    *,
    title: str,
    unit: str,
    is_log: bool = False,
) -> list[Text]:
    """The lines of a plot.

    Args:
        line: the points of the curve, from left to right.
        marks: the points that get a mark each.
        size: the columns and the rows, axes and title included.
        title: the name of the curve, written below it.
        unit: the unit of the horizontal axis.
        is_log: whether the vertical axis is logarithmic; values must be positive for that.
    """
    columns, rows = size[0] - _AXIS_COLUMNS, size[1] - 2
    line, marks = _finite(line, is_log=is_log), _finite(marks, is_log=is_log)
    places = [x for x, _ in (*line, *marks)]
    values = [y for _, y in (*line, *marks)]
    if not values:
        return [Text("")] * size[1]
    left, right = min(places), max(places)
    stretches = resample(line, 2 * columns, left, right)
    heights = [*stretches, *(y for _, y in marks)]
    low, high = min(heights), max(heights)
    cells = [list(row) for row in braille(stretches, columns, rows, (low, high))]
    lines = [Text("".join(row), style=_LINE) for row in cells]
    for x, y in marks:
        column = min(columns - 1, int((x - left) / ((right - left) or 1) * columns))
        row = round((high - y) / ((high - low) or 1) * (rows - 1))
        lines[row] = Text.assemble(
            lines[row][:column], (_MARK, _MARK_STYLE), lines[row][column + 1 :]
        )
    labels = {rows - 1: low}  # alone if all values are one, such as that of step 0
    if high > low:
        labels |= {0: high} | ({rows // 2: (high + low) / 2} if rows >= 5 else {})
    numbers = [labels.get(row) for row in range(rows)]
    return [
        *(
            Text.assemble((_label(number, is_log=is_log), "dim"), row)
            for number, row in zip(numbers, lines, strict=True)
        ),
        *_foot(left, right, columns, title, unit),
    ]


def resample(points: Sequence[Point], n: int, left: float, right: float) -> list[float]:
    """The mean of the values in each of n equal stretches; an empty one continues the last.

    Args:
        points: from left to right.
        n: how many stretches.
        left: where the first stretch begins.
        right: where the last one ends.
    """
    if not points:
        return []
    sums, counts = [0.0] * n, [0] * n
    for x, y in points:
        stretch = min(n - 1, int((x - left) / ((right - left) or 1) * n))
        sums[stretch] += y
        counts[stretch] += 1
    averages: list[float] = []
    mean = points[0][1]
    for total, count in zip(sums, counts, strict=True):
        mean = total / count if count else mean
        averages.append(mean)
    return averages


def _finite(points: Sequence[Point], *, is_log: bool) -> list[Point]:
    if not is_log:
        return [point for point in points if all(map(math.isfinite, point))]
    return [(x, math.log10(y)) for x, y in points if 0 < y < math.inf and math.isfinite(x)]


def _label(number: float | None, *, is_log: bool) -> str:
    if number is None:
        return " " * (_AXIS_COLUMNS - 1) + "│"
    value = 10**number if is_log else number
    return f"{short(value):>{_AXIS_COLUMNS - 2}} ┤"


def _foot(left: float, right: float, columns: int, title: str, unit: str) -> list[Text]:
    """The axis, and below it both ends with the title between them."""
    margin = " " * (_AXIS_COLUMNS - 1)
    first, last = short(left) if left < right else "", f"{short(right)} {unit}"
    if len(first) + len(last) > columns:
        last = short(right)
    room = max(1, columns + 1 - len(first) - len(last))
    middle = title if len(title) + 2 <= room else ""
    return [
        Text(f"{margin}└{'─' * columns}", style="dim"),
        Text(f"{margin}{first}{middle:^{room}}{last}", style="dim", no_wrap=True),
    ]
