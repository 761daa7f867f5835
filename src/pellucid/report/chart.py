"""One chart as inline SVG: curves on two axes, with a title and a description in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

from pellucid.report.axes import Axis, axis_for, grid_lines, log_axis_for, steps_axis
from pellucid.report.messages import message
from pellucid.report.story import Series

_WIDTH, _HEIGHT = 400, 250
_LEFT_MARGIN, _RIGHT_MARGIN, _TOP_MARGIN, _BOTTOM_MARGIN = 46, 12, 12, 38
#: The colours of curves in the style.
N_COLOURS = 6
#: Height of the label of a reference line.
_NAME = 14


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """A horizontal line at one value, with a label."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Chart:
    """The content of one chart.

    Args:
        key: Its name in the page, for ids.
        title: The heading.
        caption: One sentence on how to read it.
        curves: The first is drawn as a line, the others with a mark at each point.
        lines: Horizontal lines at fixed values.
        resumed_at: Steps at which the run was resumed, drawn as vertical lines.
        last_step: The end of the axis of steps.
        from_zero: Whether the axis of values starts at zero.
        logarithmic: Whether the axis of values is logarithmic, if all values allow it.
    """

    key: str
    title: str
    caption: str
    curves: tuple[Series, ...]
    lines: tuple[ReferenceLine, ...] = ()
    resumed_at: tuple[int, ...] = ()
    last_step: int = 0
    from_zero: bool = False
    logarithmic: bool = False


def svg(chart: Chart) -> str:
    """The chart, as an image that a screen reader can name and describe."""
    values = [value for curve in chart.curves for _, value in curve.points]
    values += [line.value for line in chart.lines]
    values += [end for curve in chart.curves for _, *ends in curve.band for end in ends]
    if chart.logarithmic and values and min(values) > 0:
        upright = log_axis_for(values)
    else:
        upright = axis_for(values, from_zero=chart.from_zero)
    level = steps_axis(chart.last_step)
    parts = [
        f'<svg role="img" aria-labelledby="{chart.key}-title {chart.key}-desc" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        f'<title id="{chart.key}-title">{escape(chart.title)}</title>',
        f'<desc id="{chart.key}-desc">{escape(describe(chart))}</desc>',
        *_grid(level, upright),
        *(_upright(_x(level, step)) for step in chart.resumed_at),
    ]
    for number, curve in enumerate(chart.curves, start=1):
        parts += _band(curve, level, upright, number)
        places = [(_x(level, step), _y(upright, value)) for step, value in curve.points]
        parts += _curve(places, number)
    # last, so that no curve covers their labels
    parts += _reference_lines(upright, chart.lines)
    return "\n".join([*parts, "</svg>"])


def describe(chart: Chart) -> str:
    """The chart in words: the start, end and range of each curve, and the lines."""
    clauses = [_describe_curve(curve) for curve in chart.curves]
    clauses += [message("line-at", value=line.value, name=line.name) for line in chart.lines]
    clauses += [message("resumed-after", step=step) for step in chart.resumed_at]
    return "; ".join(clauses) + "."


def _describe_curve(curve: Series) -> str:
    if not curve.points:
        return message("nothing-measured", name=curve.name)
    (first, start), (last, end) = curve.points[0], curve.points[-1]
    low = min(curve.points, key=lambda point: point[1])
    high = max(curve.points, key=lambda point: point[1])
    unit = f" {curve.unit}" if curve.unit else ""
    start_text = message("curve-start", name=curve.name, value=start, unit=unit, step=first)
    return start_text + message(
        "curve-range", end=end, last=last, low=low[1], low_at=low[0], high=high[1], high_at=high[0]
    )


def _x(axis: Axis, step: float) -> float:
    return _LEFT_MARGIN + axis.share(step) * (_WIDTH - _LEFT_MARGIN - _RIGHT_MARGIN)


def _y(axis: Axis, value: float) -> float:
    return _HEIGHT - _BOTTOM_MARGIN - axis.share(value) * (_HEIGHT - _TOP_MARGIN - _BOTTOM_MARGIN)


def _grid(level: Axis, upright: Axis) -> list[str]:
    right_edge = _WIDTH - _RIGHT_MARGIN
    parts = grid_lines(
        level,
        upright,
        x=partial(_x, level),
        y=partial(_y, upright),
        box=(_LEFT_MARGIN, right_edge, _HEIGHT - _BOTTOM_MARGIN),
        last_anchor="end",
    )
    middle = (_LEFT_MARGIN + right_edge) / 2
    parts.append(
        f'<text class="tick" x="{middle:.0f}" y="{_HEIGHT - 5}" text-anchor="middle">'
        f"{message('axis')}</text>"
    )
    return parts


def _upright(x: float) -> str:
    return f'<path class="resumed" d="M{x:.1f} {_TOP_MARGIN}V{_HEIGHT - _BOTTOM_MARGIN}"/>'


def _reference_lines(axis: Axis, lines: Sequence[ReferenceLine]) -> list[str]:
    """Lines with their labels: above the right end, or elsewhere if that place is taken."""
    labels: list[tuple[str, float]] = []
    parts: list[str] = []
    for line in lines:
        y = _y(axis, line.value)
        places = [(end, label_y) for end in ("end", "start") for label_y in (y - 4, y + 13)]
        bottom = _HEIGHT - _BOTTOM_MARGIN
        visible = [place for place in places if _TOP_MARGIN + 10 < place[1] < bottom]
        end, label_y = next((place for place in visible if _is_free(place, labels)), places[0])
        labels.append((end, label_y))
        x = _WIDTH - _RIGHT_MARGIN if end == "end" else _LEFT_MARGIN + 4
        parts.append(
            f'<path class="across" d="M{_LEFT_MARGIN} {y:.1f}H{_WIDTH - _RIGHT_MARGIN}"/>'
            f'<text class="name" x="{x}" y="{label_y:.1f}" text-anchor="{end}">'
            f"{escape(line.name)}</text>"
        )
    return parts


def _is_free(place: tuple[str, float], labels: Sequence[tuple[str, float]]) -> bool:
    return all(place[0] != end or abs(place[1] - y) >= _NAME for end, y in labels)


def _band(curve: Series, level: Axis, upright: Axis, number: int) -> list[str]:
    """The range between the lowest and the highest run, as an area."""
    if len(curve.band) < 2:
        return []
    edge = [(step, low) for step, low, _ in curve.band]
    edge += [(step, high) for step, _, high in reversed(curve.band)]
    points = " ".join(f"{_x(level, step):.1f},{_y(upright, value):.1f}" for step, value in edge)
    return [f'<polygon class="band mark-{colour(number)}" points="{points}"/>']


def colour(number: int) -> int:
    """The number of a curve's colour: the style has six."""
    return (number - 1) % N_COLOURS + 1


def _curve(places: Sequence[tuple[float, float]], number: int) -> list[str]:
    if not places:
        return []
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline class="curve curve-{colour(number)}" points="{points}"/>']
    # one point alone makes no line; many points need no marks
    if number > 1 or len(places) == 1:
        marked = places if len(places) <= 60 else places[-1:]
        parts += [
            f'<circle class="mark mark-{colour(number)}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>'
            for x, y in marked
        ]
    return parts
