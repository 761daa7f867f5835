"""One chart as inline SVG: curves on two axes, with a title and a description in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pellucid.report.axes import Axis, axis_for, label, log_axis_for, steps_axis
from pellucid.report.story import Series

_WIDTH, _HEIGHT = 400, 250
_LEFT_MARGIN, _RIGHT_MARGIN, _TOP_MARGIN, _BOTTOM_MARGIN = 46, 12, 12, 38
#: The height of a line's name.
_NAME = 14


@dataclass(frozen=True, slots=True)
class Across:
    """A line across the chart at one value, named."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Chart:
    """What one chart shows.

    Args:
        key: its name in the page, for ids.
        says: one sentence on how to read it.
        curves: the first is drawn as a line, the second with a mark at each point.
        across: lines at fixed values.
        resumed_at: steps at which the run was resumed, drawn as upright lines.
        last_step: the end of the axis of steps.
        from_zero: whether the values' axis starts at zero.
        logarithmic: whether the values' axis is logarithmic, where all values allow it.
    """

    key: str
    title: str
    says: str
    curves: tuple[Series, ...]
    across: tuple[Across, ...]
    resumed_at: tuple[int, ...]
    last_step: int
    from_zero: bool = False
    logarithmic: bool = False


def svg(chart: Chart) -> str:
    """The chart, as an image that a screen reader can name and describe."""
    values = [value for curve in chart.curves for _, value in curve.points]
    values += [line.value for line in chart.across]
    if chart.logarithmic and values and min(values) > 0:
        upright = log_axis_for(values)
    else:
        upright = axis_for(values, from_zero=chart.from_zero)
    level = steps_axis(chart.last_step)
    parts = [
        f'<svg role="img" aria-labelledby="{chart.key}-title {chart.key}-desc" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        f'<title id="{chart.key}-title">{escape(chart.title)}</title>',
        f'<desc id="{chart.key}-desc">{escape(described(chart))}</desc>',
        *_grid(level, upright),
        *(_upright(_x(level, step)) for step in chart.resumed_at),
    ]
    for number, curve in enumerate(chart.curves, start=1):
        places = [(_x(level, step), _y(upright, value)) for step, value in curve.points]
        parts += _curve(places, number)
    # last, so that no curve runs through their names
    parts += _across(upright, chart.across)
    return "\n".join([*parts, "</svg>"])


def described(chart: Chart) -> str:
    """The chart in words: from where to where each curve goes, and the lines across."""
    clauses = [_course(curve) for curve in chart.curves]
    clauses += [f"a line across at {line.value:.4g}: {line.name}" for line in chart.across]
    clauses += [f"the run was resumed after step {step:,}" for step in chart.resumed_at]
    return "; ".join(clauses) + "."


def _course(curve: Series) -> str:
    if not curve.points:
        return f"{curve.name}: nothing was measured"
    (first, start), (last, end) = curve.points[0], curve.points[-1]
    low = min(curve.points, key=lambda point: point[1])
    high = max(curve.points, key=lambda point: point[1])
    unit = f" {curve.unit}" if curve.unit else ""
    return (
        f"{curve.name} from {start:.4g}{unit} at step {first:,} to {end:.4g} at step {last:,}, "
        f"lowest {low[1]:.4g} at {low[0]:,}, highest {high[1]:.4g} at {high[0]:,}"
    )


def _x(axis: Axis, step: float) -> float:
    return _LEFT_MARGIN + axis.share(step) * (_WIDTH - _LEFT_MARGIN - _RIGHT_MARGIN)


def _y(axis: Axis, value: float) -> float:
    return _HEIGHT - _BOTTOM_MARGIN - axis.share(value) * (_HEIGHT - _TOP_MARGIN - _BOTTOM_MARGIN)


def _grid(level: Axis, upright: Axis) -> list[str]:
    bottom, right_edge = _HEIGHT - _BOTTOM_MARGIN, _WIDTH - _RIGHT_MARGIN
    parts: list[str] = []
    for tick in upright.ticks:
        y = _y(upright, tick)
        parts.append(f'<path class="grid" d="M{_LEFT_MARGIN} {y:.1f}H{right_edge}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT_MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{label(tick)}</text>"
        )
    for tick in level.ticks:
        x = _x(level, tick)
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
        anchor = "end" if x > right_edge - 8 else "middle"
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{bottom + 17}" text-anchor="{anchor}">'
            f"{label(tick)}</text>"
        )
    parts.append(f'<path class="axis" d="M{_LEFT_MARGIN} {bottom}H{right_edge}"/>')
    middle = (_LEFT_MARGIN + right_edge) / 2
    parts.append(
        f'<text class="tick" x="{middle:.0f}" y="{_HEIGHT - 5}" text-anchor="middle">step</text>'
    )
    return parts


def _upright(x: float) -> str:
    return f'<path class="resumed" d="M{x:.1f} {_TOP_MARGIN}V{_HEIGHT - _BOTTOM_MARGIN}"/>'


def _across(axis: Axis, lines: Sequence[Across]) -> list[str]:
    """Lines with their names: at the right end above the line, elsewhere where one stands there."""
    labels: list[tuple[str, float]] = []
    parts: list[str] = []
    for line in lines:
        y = _y(axis, line.value)
        places = [(end, at) for end in ("end", "start") for at in (y - 4, y + 13)]
        inside = [
            (end, at) for end, at in places if _TOP_MARGIN + 10 < at < _HEIGHT - _BOTTOM_MARGIN
        ]
        end, at = next((place for place in inside if _is_free(place, labels)), places[0])
        labels.append((end, at))
        x = _WIDTH - _RIGHT_MARGIN if end == "end" else _LEFT_MARGIN + 4
        parts.append(
            f'<path class="across" d="M{_LEFT_MARGIN} {y:.1f}H{_WIDTH - _RIGHT_MARGIN}"/>'
            f'<text class="name" x="{x}" y="{at:.1f}" text-anchor="{end}">'
            f"{escape(line.name)}</text>"
        )
    return parts


def _is_free(place: tuple[str, float], labels: Sequence[tuple[str, float]]) -> bool:
    return all(place[0] != end or abs(place[1] - at) >= _NAME for end, at in labels)


def _curve(places: Sequence[tuple[float, float]], number: int) -> list[str]:
    if not places:
        return []
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline class="curve curve-{number}" points="{drawn}"/>']
    # a curve of one point is no line; few points are marked, many are a line by themselves
    if number > 1 or len(places) == 1:
        marked = places if len(places) <= 60 else places[-1:]
        parts += [
            f'<circle class="mark mark-{number}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>'
            for x, y in marked
        ]
    return parts
