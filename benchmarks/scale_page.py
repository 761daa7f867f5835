"""How cost grows, as tables and plots.

Comes in: the results of `benchmarks.scale`. Goes out: Markdown and SVG as text. It measures
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.plots import Series, logarithmic, plot
from benchmarks.train_table import limits_line, machine_line

X_LABELS = {
    "length": "length of a text in tokens",
    "vocabulary": "tokens in the vocabulary",
    "depth": "layers",
    "width": "features of the stream",
    "corpus": "megabytes of text",
}
POWERS = tuple(float(f * 10**p) for p in range(-1, 9) for f in (1, 2, 5))


def tables(results: Mapping[str, Any]) -> dict[str, str]:
    """Each axis's table by its name, and what it ran on as "machine"."""
    machine_text = {"machine": f"{machine_line(results)} Around {results['said']}."}
    return machine_text | {axis: table(axis, result) for axis, result in results["axes"].items()}


def page(results: Mapping[str, Any]) -> str:
    """All tables, each with its two plots, as in docs/performance.md."""
    parts = [tables(results)["machine"]]
    for axis, result in results["axes"].items():
        parts.append(table(axis, result))
        for quantity in ("speed", "memory"):
            parts.append(f"![{quantity} against {axis}](performance/{axis}-{quantity}.svg)")
    return "\n\n".join(parts)


def table(axis: str, result: Mapping[str, Any]) -> str:
    """An axis as Markdown."""
    prepared = axis == "corpus"
    head = "| preparing it, s | MB at most while preparing " if prepared else ""
    lines = [
        f"**{axis}**. {limits_line(result['limits'])}",
        "",
        f"| {X_LABELS[axis]} | tokens/s (range) | at peak | share | MB | counted MB {head}|",
        "|---|---|---|---|---|---|" + "---|---|" * prepared,
    ]
    for row in result["points"]:
        low, high = row["tokens_per_second_range"]
        preparing_cells = ""
        if prepared:
            peak = row["preparing_peak_bytes"] / 1e6
            preparing_cells = f" {row['preparing_seconds']:.1f} | {peak:,.0f} |"
        lines.append(
            f"| {row['value']:,} | {row['tokens_per_second']:,.0f} ({low:,.0f} to {high:,.0f}) | "
            f"{row['tokens_per_second_at_peak']:,.0f} | {row['share_of_peak']:.0%} | "
            f"{row['bytes'] / 1e6:,.0f} | {row['counted_bytes'] / 1e6:,.0f} |{preparing_cells}"
        )
    return "\n".join(lines)


def draw(results: Mapping[str, Any]) -> dict[str, str]:
    """Two plots an axis, by their names: speed and memory."""
    plots: dict[str, str] = {}
    for axis, result in results["axes"].items():
        points = result["points"]
        measured, arithmetic = "measured", "arithmetic at peak"
        speed = [
            Series(measured, tuple((value_of(p), speeds(p)) for p in points)),
            Series(
                arithmetic,
                tuple((value_of(p), (p["tokens_per_second_at_peak"],) * 3) for p in points),
            ),
        ]
        plots[f"{axis}-speed"] = drawing(axis, "Speed of an update", "tokens per second", speed)
        memory = [
            Series(measured, tuple((value_of(p), (p["bytes"] / 1e6,) * 3) for p in points)),
            Series(
                "as counted", tuple((value_of(p), (p["counted_bytes"] / 1e6,) * 3) for p in points)
            ),
        ]
        plots[f"{axis}-memory"] = drawing(axis, "Memory of an update", "MB", memory)
    return plots


def value_of(point: Mapping[str, Any]) -> float:
    return float(point["value"])


def speeds(point: Mapping[str, Any]) -> tuple[float, float, float]:
    low, high = point["tokens_per_second_range"]
    return low, point["tokens_per_second"], high


def drawing(axis: str, quantity: str, y_label: str, series: list[Series]) -> str:
    places = sorted({x for line in series for x, _ in line.points})
    values = [value for line in series for _, spread in line.points for value in spread]
    return plot(
        f"{quantity} against {axis}",
        X_LABELS[axis],
        y_label,
        series,
        x=logarithmic(places, tuple(places)),
        y=logarithmic(values, POWERS),
    )
