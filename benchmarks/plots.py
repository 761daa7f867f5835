"""A plot as a file of SVG: series of points with their spread, on axes that may be logarithmic.

Comes in: series. Goes out: SVG as text, in light and dark as the reader's system asks. It does not
know the meaning of the values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from pellucid.report.axes import axis_for

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 40, 50
COLOURS = ("#1766a6", "#b4470b", "#2b7a3d", "#8a2f8f", "#5b5d66")
DARK = ("#74b9f0", "#f3a35f", "#7fce8f", "#d99be0", "#a3a6af")
#: Not by colour alone.
DASHES = ("", "7 4", "2 3", "10 3 2 3", "1 5")


@dataclass(frozen=True)
class Series:
    """A name, and for each x the lowest, the middle and the highest y."""

    name: str
    points: tuple[tuple[float, tuple[float, float, float]], ...]


@dataclass(frozen=True)
class Scale:
    """From values to places between two ends."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool

    def share(self, value: float) -> float:
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def plot(title: str, x_label: str, y_label: str, series: list[Series], **scales: Scale) -> str:
    """The plot; `x` and `y` are its scales."""
    x, y = scales["x"], scales["y"]
    description = "; ".join(f"{line.name}: {course(line)}" for line in series)
    colours = "".join(f".s{i}{{stroke:{c};fill:{c}}}" for i, c in enumerate(COLOURS))
    dark = "".join(f".s{i}{{stroke:{c};fill:{c}}}" for i, c in enumerate(DARK))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(description)}</desc>',
        "<style>text{font:13px system-ui,sans-serif;fill:#1c1d21;stroke:none}"
        ".paper{fill:#fcfcfa}.grid{stroke:#d8d8d2}.line{fill:none;stroke-width:2}"
        f".spread{{stroke-width:1.2}}{colours}@media (prefers-color-scheme:dark){{"
        f"text{{fill:#e9e9e6}}.paper{{fill:#131417}}.grid{{stroke:#33363d}}{dark}}}"
        ".line{fill:none}text.s0,text.s1,text.s2,text.s3,text.s4{stroke:none}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text x="{LEFT}" y="22" font-weight="600">{escape(title)}</text>',
        *grid(x, y, x_label, y_label),
    ]
    for number, line in enumerate(series):
        parts += curve(line, number, x, y)
    parts += names(series, y)
    return "\n".join([*parts, "</svg>"]) + "\n"


def course(line: Series) -> str:
    return ", ".join(f"{middle:.4g} at {x:g}" for x, (_, middle, _) in line.points)


def place(x: Scale, y: Scale, x_value: float, y_value: float) -> tuple[float, float]:
    return (
        LEFT + x.share(x_value) * (WIDTH - LEFT - RIGHT),
        HEIGHT - BOTTOM - y.share(y_value) * (HEIGHT - TOP - BOTTOM),
    )


def grid(x: Scale, y: Scale, x_label: str, y_label: str) -> list[str]:
    parts: list[str] = []
    for tick in y.ticks:
        _, position = place(x, y, x.low, tick)
        parts.append(f'<path class="grid" d="M{LEFT} {position:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{position + 4:.1f}" text-anchor="end">{tick:g}</text>'
        )
    for tick in x.ticks:
        position, _ = place(x, y, tick, y.low)
        bottom = HEIGHT - BOTTOM
        parts.append(f'<path class="grid" d="M{position:.1f} {TOP}V{bottom}"/>')
        parts.append(
            f'<text x="{position:.1f}" y="{bottom + 17}" text-anchor="middle">{tick:g}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>'
    )
    upright = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text transform="translate(18 {upright}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )
    return parts


def curve(line: Series, number: int, x: Scale, y: Scale) -> list[str]:
    middles = [place(x, y, x_value, y_value[1]) for x_value, y_value in line.points]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in middles)
    dashes = f' stroke-dasharray="{DASHES[number]}"' if DASHES[number] else ""
    parts = [f'<polyline class="s{number} line" points="{path}"{dashes}/>']
    for x_value, (low, y_value, high) in line.points:
        x_drawn, bottom = place(x, y, x_value, low)
        _, top = place(x, y, x_value, high)
        _, middle = place(x, y, x_value, y_value)
        parts.append(f'<path class="s{number} spread" d="M{x_drawn:.1f} {bottom:.1f}V{top:.1f}"/>')
        parts.append(f'<circle class="s{number}" cx="{x_drawn:.1f}" cy="{middle:.1f}" r="3"/>')
    return parts


def names(series: list[Series], y: Scale) -> list[str]:
    """Each curve's name at its end, moved apart where they would cover each other."""
    ends = sorted(
        (HEIGHT - BOTTOM - y.share(line.points[-1][1][1]) * (HEIGHT - TOP - BOTTOM), number)
        for number, line in enumerate(series)
    )
    parts: list[str] = []
    free = TOP - 20.0
    n_below = len(ends)
    for height, number in ends:
        height = min(max(height, free), HEIGHT - BOTTOM - 16 * (n_below - 1) + 4)
        free, n_below = height + 16, n_below - 1
        parts.append(
            f'<text class="s{number}" x="{WIDTH - RIGHT + 10}" y="{height + 4:.1f}">'
            f"{escape(series[number].name)}</text>"
        )
    return parts


def linear(values: Iterable[float], ticks: tuple[float, ...]) -> Scale:
    """A scale from the first tick to the last one, which hold all values."""
    assert all(ticks[0] <= value <= ticks[-1] for value in values)
    return Scale(ticks[0], ticks[-1], ticks, logarithmic=False)


def from_zero(values: Iterable[float]) -> Scale:
    """A scale from zero over all values, with ticks at round numbers."""
    axis = axis_for(values, from_zero=True)
    return Scale(axis.low, axis.high, axis.ticks, logarithmic=False)


def logarithmic(values: Iterable[float], ticks: tuple[float, ...]) -> Scale:
    """The same, logarithmic, and no wider than the values."""
    all_values = list(values)
    low, high = min(all_values) / 1.05, max(all_values) * 1.05
    return Scale(low, high, tuple(t for t in ticks if low <= t <= high), logarithmic=True)
