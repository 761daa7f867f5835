"""The plots and tables of docs/attention.md.

Comes in: the results of `benchmarks.attention`. Goes out: SVG and Markdown as text. It measures
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from benchmarks.attention_tasks import KINDS
from benchmarks.plots import Series, from_zero, linear, logarithmic, plot

NAMES = {
    "softmax": "softmax",
    "window": "window alone",
    "linear": "linear",
    "memory": "memory",
    "frozen": "memory, frozen",
}
POWERS = tuple(float(f * 10**p) for p in range(-3, 7) for f in (1, 2, 5))
LENGTHS = tuple(float(2**p) for p in range(6, 15))


def draw(results: dict[str, Any]) -> dict[str, str]:
    """Each plot by its name."""
    recall_series = [recalled(results, kind) for kind in KINDS]
    plots = {
        "recall": plot(
            "Recall at a distance",
            "tokens of filler between the pairs and the questions",
            "share of values told right",
            recall_series,
            x=linear(
                (p[0] for s in recall_series for p in s.points), (0, 32, 64, 96, 128, 160, 192)
            ),
            y=linear((0, 1), (0, 0.25, 0.5, 0.75, 1)),
        )
    }
    for name, title, up, key, factor in (
        (
            "speed",
            "Speed of a training step",
            "tokens per second of processor",
            "tokens_per_second",
            1.0,
        ),
        ("peak", "Memory of a training step", "MB above the start", "peak_bytes_above_start", 1e-6),
        ("state", "What generation carries on", "kB for one text", "state_bytes", 1e-3),
    ):
        series = [against_length(results, kind, key, factor) for kind in KINDS]
        values = [y for line in series for _, spread in line.points for y in spread]
        lengths = [x for line in series for x, _ in line.points]
        plots[name] = plot(
            title,
            "length of the text in tokens",
            up,
            series,
            x=logarithmic(lengths, LENGTHS),
            y=from_zero(values) if name == "peak" else logarithmic(values, POWERS),
        )
    return plots


def recalled(results: dict[str, Any], kind: str) -> Series:
    runs = results["recall"][kind]
    points = tuple((float(d), spread([r["right"][d] for r in runs])) for d in runs[0]["right"])
    return Series(NAMES[kind], points)


def against_length(results: dict[str, Any], kind: str, key: str, factor: float) -> Series:
    points = []
    for row in results["steps"]:
        if row["kind"] != kind:
            continue
        value = row[key] * factor
        low, high = value, value
        if key == "tokens_per_second":
            low, high = row["slowest"] * factor, row["fastest"] * factor
        points.append((float(row["length"]), (low, value, high)))
    return Series(NAMES[kind], tuple(points))


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    return min(values), mean(values), max(values)


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Each table by its name."""
    return {
        "recall": recall_table(results),
        "language": language_table(results),
        "steps": step_table(results),
        "machine": machine_line(results),
    }


def recall_table(results: dict[str, Any]) -> str:
    distances = list(results["recall"]["softmax"][0]["right"])
    lines = [
        f"| | parameters | {' | '.join(distances)} |",
        "|---|---|" + "---|" * len(distances),
    ]
    rows = {NAMES[kind]: (kind, "right") for kind in KINDS}
    rows["memory, frozen after training"] = ("memory", "right_when_frozen")
    for name, (kind, key) in rows.items():
        runs = results["recall"][kind]
        cells = [format_range([run[key][d] for run in runs], 2) for d in distances]
        lines.append(f"| {name} | {runs[0]['parameters']:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def language_table(results: dict[str, Any]) -> str:
    lines = ["| | parameters | held-out nats per token |", "|---|---|---|"]
    for kind in KINDS:
        runs = results["language"][kind]
        loss = format_range([run["held_out_nats"] for run in runs], 3)
        lines.append(f"| {NAMES[kind]} | {runs[0]['parameters']:,} | {loss} |")
    return "\n".join(lines)


def step_table(results: dict[str, Any]) -> str:
    lengths = sorted({row["length"] for row in results["steps"]})
    head = " | ".join(f"{length:,}" for length in lengths)
    lines = [f"| | | {head} |", "|---|---|" + "---|" * len(lengths)]
    by_place = {(row["kind"], row["length"]): row for row in results["steps"]}
    for label, key, factor, digits in (
        ("tokens per second", "tokens_per_second", 1.0, 0),
        ("MB above the start", "peak_bytes_above_start", 1e-6, 0),
        ("kB of state", "state_bytes", 1e-3, 0),
    ):
        for kind in KINDS:
            cells = [f"{by_place[kind, length][key] * factor:,.{digits}f}" for length in lengths]
            lines.append(f"| {label} | {NAMES[kind]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def format_range(values: Sequence[float], digits: int) -> str:
    """The mean, and from where to where the seeds lie."""
    low, middle, high = spread(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def machine_line(results: dict[str, Any]) -> str:
    machine, arguments = results["machine"], results["arguments"]
    loads = [row["load_before"] for row in results["steps"]]
    return (
        f"{results['date']}: {machine['cores']} cores ({machine['capability']}), "
        f"one thread, torch {machine['torch']}, Python {machine['python']}. "
        f"Load average before the timed steps: {min(loads):.1f} to {max(loads):.1f} (below 1 is "
        f"quiet). Seeds {', '.join(str(seed) for seed in arguments['seeds'])}; "
        f"{arguments['recall_steps']} updates for recall, {arguments['language_steps']} for text; "
        f"{arguments['tokens']:,} tokens in a timed step, the median of {arguments['repetitions']}."
    )
