"""A picture as SVG: a whole file, or a part of a page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape
from typing import assert_never

from pellucid.course.experiments.picture import Bars, Curves, Picture
from pellucid.report.axes import Axis, axis_for, grid_lines, log_axis_for
from pellucid.report.style import CSS

_WIDTH, _HEIGHT, _ROW = 640, 380, 26
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 36, 48
_BARS_LEFT = 230


def axis(values: Iterable[float], *, logarithmic: bool) -> Axis:
    """An axis for the finite values; logarithmic if you ask for it and all are above zero."""
    finite = [value for value in values if math.isfinite(value)]
    if logarithmic and finite and min(finite) > 0:
        return log_axis_for(finite)
    return axis_for(finite)


def picture_svg(picture: Picture) -> str:
    """The picture with its style, as the text of an SVG file."""
    match picture:
        case Bars():
            height = _TOP + _ROW * len(picture.bars) + 12
            parts, description = list(_bars(picture)), _describe_bars(picture)
        case Curves():
            height = _HEIGHT + 18 * len(picture.curves)
            parts, description = list(_curves(picture)), _describe_curves(picture)
        case _:
            assert_never(picture)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            'aria-labelledby="picture-title picture-desc">',
            f'<title id="picture-title">{escape(picture.title)}</title>',
            f'<desc id="picture-desc">{escape(description)}</desc>',
            f"<style>{CSS} .picture {{ fill: var(--ink); font: 14px system-ui, sans-serif; }} "
            ".paper { fill: var(--paper); }</style>",
            f'<rect class="paper" width="{_WIDTH}" height="{height}"/>',
            f'<text class="picture" x="14" y="22">{escape(picture.title)}</text>',
            *parts,
            "</svg>",
        ]
    )


def _bars(picture: Bars) -> Iterator[str]:
    values = [value if math.isfinite(value) else 0.0 for _, value in picture.bars]
    level = axis_for([0.0, *values])

    def place(value: float) -> float:
        return _BARS_LEFT + level.share(value) * (_WIDTH - _BARS_LEFT - 80)

    for row, ((name, number), value) in enumerate(zip(picture.bars, values, strict=True)):
        y = _TOP + row * _ROW
        left, right = sorted((place(0.0), place(value)))
        yield (
            f'<text class="tick" x="{_BARS_LEFT - 8}" y="{y + 15}" text-anchor="end">'
            f"{escape(name)}</text>"
        )
        yield (
            f'<rect class="mark-1" x="{left:.1f}" y="{y + 3}" width="{right - left:.1f}" '
            f'height="{_ROW - 10}"/>'
        )
        yield f'<text class="tick" x="{right + 6:.1f}" y="{y + 15}">{number:.4g}</text>'


def _curves(picture: Curves) -> Iterator[str]:
    points = [point for line in picture.curves for point in line.points]
    level = axis([x for x, _ in points], logarithmic=picture.log_x)
    upright = axis([y for _, y in points], logarithmic=picture.log_y)
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT

    def x_of(value: float) -> float:
        return _LEFT + level.share(value) * (right - _LEFT)

    def y_of(value: float) -> float:
        return bottom - upright.share(value) * (bottom - _TOP)

    yield from grid_lines(level, upright, x=x_of, y=y_of, box=(_LEFT, right, bottom))
    yield (
        f'<text class="tick" x="{(_LEFT + right) / 2:.0f}" y="{bottom + 36}" '
        f'text-anchor="middle">{escape(picture.x_label)}; up: {escape(picture.y_label)}</text>'
    )
    for number, line in enumerate(picture.curves, 1):
        colour = (number - 1) % 6 + 1
        places = [
            f"{x_of(x):.1f},{y_of(y):.1f}"
            for x, y in line.points
            if math.isfinite(x) and math.isfinite(y)
        ]
        yield f'<polyline class="curve curve-{colour}" points="{" ".join(places)}"/>'
        y = _HEIGHT + 18 * number - 14
        yield f'<path class="curve curve-{colour}" d="M{_LEFT} {y - 4}h24"/>'
        yield f'<text class="tick" x="{_LEFT + 32}" y="{y}">{escape(line.name)}</text>'


def _describe_bars(picture: Bars) -> str:
    return "; ".join(f"{name}: {value:.4g}" for name, value in picture.bars) + "."


def _describe_curves(picture: Curves) -> str:
    clauses = (
        f"{line.name} from {line.points[0][1]:.4g} at {line.points[0][0]:.4g} to "
        f"{line.points[-1][1]:.4g} at {line.points[-1][0]:.4g}"
        for line in picture.curves
        if line.points
    )
    return f"{picture.y_label} by {picture.x_label}: {'; '.join(clauses)}."
