"""The differences of all pairs with their intervals, one below the other, as inline SVG."""

from __future__ import annotations

from html import escape

from pellucid.lab.comparison import Comparison, PairResult
from pellucid.report.axes import Axis, axis_for, label

_WIDTH, _ROW, _TOP, _BOTTOM = 640, 26, 10, 40
_LEFT, _RIGHT = 200, 16
_MOST_LETTERS = 26


def forest(comparison: Comparison) -> str:
    """A row for each pair that has an interval; the line at zero means no difference.

    Args:
        comparison: the comparison.
    """
    pairs = [pair for pair in comparison.pairs if pair.difference.interval is not None]
    if not pairs:
        return ""
    ends = [end for pair in pairs for end in pair.difference.interval or ()]
    axis = axis_for([0.0, *ends])
    height = _TOP + _ROW * len(pairs) + _BOTTOM
    unit = comparison.measure.unit or comparison.measure.label
    text = "; ".join(f"{pair.names[1]} - {pair.names[0]}: {pair.verdict}" for pair in pairs)
    parts = [
        '<figure><figcaption><h3 id="forest-head">Differences</h3><p>Each second variant minus the '
        f"first, in {escape(unit)}, with its 95% interval.</p></figcaption>",
        '<svg role="img" aria-labelledby="forest-head forest-desc" '
        f'viewBox="0 0 {_WIDTH} {height}">',
        f'<desc id="forest-desc">{escape(text)}.</desc>',
        f'<path class="across" d="M{_x(axis, 0):.1f} {_TOP}V{height - _BOTTOM}"/>',
        *_ticks(axis, height - _BOTTOM),
        *(part for row, pair in enumerate(pairs) for part in _row(pair, axis, row)),
        "</svg></figure>",
    ]
    return "\n".join(parts)


def _row(pair: PairResult, axis: Axis, row: int) -> list[str]:
    low, high = pair.difference.interval or (0.0, 0.0)
    y = _TOP + _ROW * (row + 0.5)
    name = f"{pair.names[1]} - {pair.names[0]}"
    name = name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"
    x = _x(axis, pair.difference.mean)
    return [
        f'<text class="tick" x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">'
        f"{escape(name)}</text>",
        f'<path class="curve curve-1" d="M{_x(axis, low):.1f} {y:.1f}H{_x(axis, high):.1f}"/>',
        f'<circle class="mark mark-1" cx="{x:.1f}" cy="{y:.1f}" r="4"/>',
    ]


def _ticks(axis: Axis, bottom: float) -> list[str]:
    parts = [f'<path class="axis" d="M{_LEFT} {bottom}H{_WIDTH - _RIGHT}"/>']
    for tick in axis.ticks:
        x = _x(axis, tick)
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">'
            f"{label(tick)}</text>"
        )
    return parts


def _x(axis: Axis, value: float) -> float:
    return _LEFT + axis.share(value) * (_WIDTH - _LEFT - _RIGHT)
