"""How cost grows, as tables and plots.

Comes in: the results of `benchmarks.scale`. Goes out: Markdown and SVG as text. It measures
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.plots import Scale, Series, logarithmic, plot
from benchmarks.train_table import limits_line, machine_line

ACROSS = {
    "length": "length of a text in tokens",
    "vocabulary": "tokens in the vocabulary",
    "depth": "layers",
    "width": "features of the stream",
    "corpus": "megabytes of text",
}
POWERS = tuple(float(f * 10**p) for p in range(-1, 9) for f in (1, 2, 5))
DOUBLES = tuple(float(2**p) for p in range(21))


def tables(found: Mapping[str, Any]) -> dict[str, str]:
    """Each axis's table by its name, and what it ran on as "machine"."""
    said = {"machine": f"{machine_line(found)} Around {found['said']}."}
    return said | {axis: table(axis, result) for axis, result in found["axes"].items()}


def page(found: Mapping[str, Any]) -> str:
    """All tables, each with its two plots, as they stand in docs/performance.md."""
    parts = [tables(found)["machine"]]
    for axis, result in found["axes"].items():
        parts.append(table(axis, result))
        for what in ("speed", "memory"):
            parts.append(f"![{what} against {axis}](performance/{axis}-{what}.svg)")
    return "\n\n".join(parts)


def table(axis: str, result: Mapping[str, Any]) -> str:
    """An axis as Markdown."""
    prepared = axis == "corpus"
    head = "| preparing it, s | MB at most while preparing " if prepared else ""
    lines = [
        f"**{axis}**. {limits_line(result['limits'])}",
        "",
        f"| {ACROSS[axis]} | tokens/s (range) | at peak | share | MB | counted MB {head}|",
        "|---|---|---|---|---|---|" + "---|---|" * prepared,
    ]
    for one in result["points"]:
        low, high = one["tokens_per_second_range"]
        more = ""
        if prepared:
            peak = one["preparing_peak_bytes"] / 1e6
            more = f" {one['preparing_seconds']:.1f} | {peak:,.0f} |"
        lines.append(
            f"| {one['value']:,} | {one['tokens_per_second']:,.0f} ({low:,.0f} to {high:,.0f}) | "
            f"{one['tokens_per_second_at_peak']:,.0f} | {one['share_of_peak']:.0%} | "
            f"{one['bytes'] / 1e6:,.0f} | {one['counted_bytes'] / 1e6:,.0f} |{more}"
        )
    return "\n".join(lines)


def draw(found: Mapping[str, Any]) -> dict[str, str]:
    """Two plots an axis, by their names: speed and memory."""
    drawn: dict[str, str] = {}
    for axis, result in found["axes"].items():
        points = result["points"]
        measured, counted = "measured", "arithmetic at peak"
        speed = [
            Series(measured, tuple((at(p), speeds(p)) for p in points)),
            Series(counted, tuple((at(p), (p["tokens_per_second_at_peak"],) * 3) for p in points)),
        ]
        drawn[f"{axis}-speed"] = drawing(axis, "Speed of an update", "tokens per second", speed)
        held = [
            Series(measured, tuple((at(p), (p["bytes"] / 1e6,) * 3) for p in points)),
            Series("as counted", tuple((at(p), (p["counted_bytes"] / 1e6,) * 3) for p in points)),
        ]
        drawn[f"{axis}-memory"] = drawing(axis, "Memory of an update", "MB", held)
    return drawn


def at(point: Mapping[str, Any]) -> float:
    return float(point["value"])


def speeds(point: Mapping[str, Any]) -> tuple[float, float, float]:
    low, high = point["tokens_per_second_range"]
    return low, point["tokens_per_second"], high


def drawing(axis: str, what: str, up: str, series: list[Series]) -> str:
    values = [value for one in series for _, spread in one.points for value in spread]
    return plot(
        f"{what} against {axis}",
        ACROSS[axis],
        up,
        series,
        x=across(axis, series),
        y=logarithmic(values, POWERS),
    )


def across(axis: str, series: list[Series]) -> Scale:
    ticks = POWERS if axis == "corpus" else DOUBLES
    return logarithmic([x for one in series for x, _ in one.points], ticks)
