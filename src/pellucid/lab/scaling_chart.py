"""The law as a picture: a curve for each size over the tokens, with the losses of the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from html import escape

import numpy as np

from pellucid.display.numbers import short
from pellucid.lab.scaling import Rungs, Scaling
from pellucid.report.axes import Axis, axis_for, grid_lines
from pellucid.report.chart import colour

_WIDTH, _HEIGHT = 640, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 84, 12, 44
#: Points of a curve.
_POINTS = 40


def scaling_chart(scaling: Scaling) -> str:
    """A line for each size, dots for the runs of the ladder, and rings for the next size.

    Args:
        scaling: the ladder.
    """
    checked = [check.rungs for check in scaling.checks]
    rows = [rungs for rungs in (*scaling.ladder, *checked) if rungs.mean is not None]
    if not rows:
        return ""
    tokens = [rungs.n_tokens for rungs in rows]
    level = _log_axis(min(tokens), max(tokens))
    ends = [end for check in scaling.checks for end in check.interval]
    upright = axis_for([*(rungs.mean for rungs in rows if rungs.mean is not None), *ends])
    sizes = sorted({rungs.n_weights for rungs in rows})
    parts = [
        '<figure><figcaption><h3 id="law-head">Loss by tokens and size</h3><p>'
        f"{escape(scaling.measure.title.capitalize())} over the tokens of a training, on a "
        "logarithmic axis. Lines are the law, dots its runs. The dashed line is the predicted "
        "size, the rings are its runs, and the bars the intervals of the prediction.</p>"
        "</figcaption>",
        f'<svg role="img" aria-labelledby="law-head law-desc" viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        f'<desc id="law-desc">{escape(_describe(scaling, rows))}</desc>',
        *_grid(level, upright),
    ]
    for number, size in enumerate(sizes, start=1):
        size_rungs = [rungs for rungs in rows if rungs.n_weights == size]
        is_next = size_rungs[0] in checked
        parts += _curve(scaling, size_rungs, level, upright, number, is_next=is_next)
        for rungs in size_rungs:
            assert rungs.mean is not None
            x, y = _x(level, rungs.n_tokens), _y(upright, rungs.mean)
            kind = f"curve curve-{colour(number)}" if is_next else f"mark mark-{colour(number)}"
            parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    for check in scaling.checks:
        x = _x(level, check.rungs.n_tokens)
        low, high = (_y(upright, end) for end in check.interval)
        parts.append(
            f'<path class="curve curve-{colour(len(sizes))}" d="M{x:.1f} {low:.1f}V{high:.1f}"/>'
        )
    return "\n".join([*parts, "</svg></figure>"])


def _curve(
    scaling: Scaling,
    size_rungs: Sequence[Rungs],
    level: Axis,
    upright: Axis,
    number: int,
    *,
    is_next: bool,
) -> list[str]:
    """The law for one size, with its name at the right end."""
    size = size_rungs[0].n_weights
    grid = np.geomspace(level.low, level.high, _POINTS)
    last = size_rungs[-1].mean
    parts: list[str] = []
    if scaling.law is not None:
        losses = scaling.law.losses(np.full(_POINTS, size), grid)
        places = " ".join(
            f"{_x(level, float(n)):.1f},{_y(upright, float(loss)):.1f}"
            for n, loss in zip(grid, losses, strict=True)
            if upright.low <= loss <= upright.high
        )
        dashes = ' stroke-dasharray="6 4"' if is_next else ""
        parts.append(f'<polyline class="curve curve-{colour(number)}" points="{places}"{dashes}/>')
        last = float(losses[-1])
    assert last is not None
    y = min(max(_y(upright, last), _TOP + 6), _HEIGHT - _BOTTOM)
    name = f'<text class="tick" x="{_WIDTH - _RIGHT + 8}" y="{y + 4:.1f}">{short(size)}</text>'
    return [*parts, name]


def _describe(scaling: Scaling, rows: Sequence[Rungs]) -> str:
    return (
        "; ".join(
            f"{short(rungs.n_weights)} weights, {short(rungs.n_tokens)} tokens: {rungs.mean:.4g}"
            for rungs in rows
        )
        + "."
    )


def _grid(level: Axis, upright: Axis) -> list[str]:
    right = _WIDTH - _RIGHT
    box = (_LEFT, right, _HEIGHT - _BOTTOM)
    parts = grid_lines(level, upright, x=partial(_x, level), y=partial(_y, upright), box=box)
    middle = (_LEFT + right) / 2
    parts.append(
        f'<text class="tick" x="{middle:.0f}" y="{_HEIGHT - 6}" text-anchor="middle">tokens</text>'
    )
    parts.append(f'<text class="tick" x="{right + 8}" y="{_HEIGHT - 6}">weights</text>')
    return parts


def _log_axis(low: float, high: float) -> Axis:
    """A logarithmic axis a little wider than its values, with ticks at 1, 2 and 5."""
    low, high = low / 1.15, high * 1.15
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    return Axis(low, high, tuple(t for t in ticks if low <= t <= high), logarithmic=True)


def _x(axis: Axis, tokens: float) -> float:
    return _LEFT + axis.share(tokens) * (_WIDTH - _LEFT - _RIGHT)


def _y(axis: Axis, loss: float) -> float:
    return _HEIGHT - _BOTTOM - axis.share(loss) * (_HEIGHT - _TOP - _BOTTOM)
