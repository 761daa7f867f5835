"""A picture in characters, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import assert_never

from pellucid.course.experiments.picture import Bars, Curve, Curves, Picture
from pellucid.course.experiments.svg_picture import axis
from pellucid.report.axes import Axis, label

_BAR, _LABEL = 40, 34
_COLUMNS, _ROWS, _MARGIN = 60, 14, 9
#: A curve's mark; not by colour alone.
MARKS = "ox+*#@%&"


def picture_lines(picture: Picture) -> Iterator[str]:
    """The lines of a picture."""
    yield picture.title
    match picture:
        case Bars():
            yield from _bars(picture)
        case Curves():
            yield from _curves(picture)
        case _:
            assert_never(picture)


def _bars(picture: Bars) -> Iterator[str]:
    finite = [abs(value) for _, value in picture.bars if math.isfinite(value)]
    largest = max(finite, default=0.0) or 1.0
    width = min(_LABEL, max(len(name) for name, _ in picture.bars))
    for name, value in picture.bars:
        length = round(min(abs(value) / largest, 1) * _BAR) if value == value else 0
        bar = ("▒" if value < 0 else "█") * length
        yield f"  {name[:_LABEL]:<{width}}  {bar} {value:.4g}".rstrip()


def _curves(picture: Curves) -> Iterator[str]:
    points = [point for line in picture.curves for point in line.points]
    level = axis([x for x, _ in points], logarithmic=picture.log_x)
    upright = axis([y for _, y in points], logarithmic=picture.log_y)
    cells = [[" "] * _COLUMNS for _ in range(_ROWS)]
    for mark, line in zip(MARKS, picture.curves, strict=False):
        for column, row in _cells(line, level, upright):
            cells[row][column] = mark
    for row, line in enumerate(cells):
        name = {0: label(upright.high), _ROWS - 1: label(upright.low)}.get(row, "")
        yield f"{name:>{_MARGIN}} │{''.join(line)}".rstrip()
    yield f"{'':>{_MARGIN}} └{'─' * _COLUMNS}"
    low, high = label(level.low), label(level.high)
    yield f"{'':>{_MARGIN}}  {low}{picture.x_label:^{_COLUMNS - len(low) - len(high)}}{high}"
    yield f"{'':>{_MARGIN}}  {picture.y_label}:"
    names = (f"{mark} {line.name}" for mark, line in zip(MARKS, picture.curves, strict=False))
    yield from _wrapped(names)


def _wrapped(names: Iterable[str]) -> Iterator[str]:
    """The names of curves, as many on a line as fit under the picture."""
    line = ""
    for name in names:
        joined = f"{line}   {name}" if line else name
        if line and len(joined) > _COLUMNS:
            yield f"{'':>{_MARGIN}}  {line}"
            joined = name
        line = joined
    yield f"{'':>{_MARGIN}}  {line}"


def _cells(line: Curve, level: Axis, upright: Axis) -> Iterator[tuple[int, int]]:
    """The cells that a curve passes: its points, and the straight lines between them."""
    places = [
        (level.share(x) * (_COLUMNS - 1), (1 - upright.share(y)) * (_ROWS - 1))
        for x, y in line.points
        if math.isfinite(x) and math.isfinite(y)
    ]
    for (x, y), (next_x, next_y) in zip(places, places[1:] or places, strict=False):
        steps = max(1, math.ceil(max(abs(next_x - x), abs(next_y - y))))
        for i in range(steps + 1):
            share = i / steps
            yield round(x + share * (next_x - x)), round(y + share * (next_y - y))
