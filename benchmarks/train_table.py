"""What a training benchmark came to: medians, ratios, shares of the machine's peak, as a table.

Comes in: turns, or the results that were kept of them. Goes out: numbers, and Markdown. It measures
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.shapes import Shape
from benchmarks.workers import Turn, ratio, ratios, seconds

#: Ratios are to these, where they took part.
WATCHED = "pellucid, vital signs"


def summary(
    turns: Mapping[str, Sequence[Turn]], shape: Shape, limits: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, Any]]:
    """For each contestant its speed, its share of each peak, and the ratios to all the others.

    `faster_than[b]` of a is how many of a's updates fit into one of b's; by both clocks.
    """
    rows: dict[str, dict[str, Any]] = {}
    for name, own_turns in turns.items():
        wall, processor = seconds(own_turns), seconds(own_turns, "processor")
        rows[name] = {
            "seconds": wall,
            "processor_seconds": processor,
            "tokens_per_second": shape.tokens / wall,
            "flops_per_second": shape.flops / wall,
            "share_of_peak": {
                dtype: shape.flops / wall / limits["best"][dtype]
                for dtype in ("bfloat16", "float32")
            },
            "share_of_peak_by_processor": {
                dtype: shape.flops / processor / limits["by_processor"][dtype]
                for dtype in ("bfloat16", "float32")
            },
            "peak_bytes": own_turns[-1].peak_bytes,
            "last_loss": own_turns[-1].found["loss"],
            "faster_than": {
                other: {
                    "wall": ratio(other_turns, own_turns),
                    "wall_range": [
                        min(ratios(other_turns, own_turns)),
                        max(ratios(other_turns, own_turns)),
                    ],
                    "processor": ratio(other_turns, own_turns, "processor"),
                }
                for other, other_turns in turns.items()
                if other != name
            },
        }
    return rows


def tables(results: Mapping[str, Any]) -> str:
    """Every shape's table."""
    return "\n\n".join(table(results, name) for name in results["shapes"])


def table(results: Mapping[str, Any], name: str) -> str:
    """A shape's results as Markdown, below a line with the command and the machine."""
    result = results["shapes"][name]
    rows = result["summary"]
    pellucid_row = next(
        (name for name in (WATCHED, *rows) if name in rows and name.startswith("pellucid")), None
    )
    lines = [
        f"**{name}**: {result['said']}. Ids: {result['ids']}. {machine_line(results)}",
        "",
        limits_line(result["limits"]),
        "",
        f"| | tokens/s | {pellucid_row or 'pellucid'} is faster by (range; by processor time) "
        "| share of peak | peak MB | parameters | first loss | loss at the end |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for contestant, row in rows.items():
        fact = result["facts"][contestant]
        peak = share(row, fact["precision"])
        lines.append(
            f"| {contestant} | {row['tokens_per_second']:,.0f} | "
            f"{faster(rows, pellucid_row, contestant)} | {peak} | "
            f"{row['peak_bytes'] / 1e6:,.0f} | {fact['parameters']:,} | {first_loss(fact)} | "
            f"{row['last_loss']:.3f} |"
        )
    lines += ["", notes(result)]
    return "\n".join(lines)


def faster(rows: Mapping[str, Any], pellucid_row: str | None, other: str) -> str:
    """How many times as fast as `other` pellucid is, with the range over rounds."""
    if pellucid_row is None or pellucid_row == other:
        return ""
    comparison = rows[pellucid_row]["faster_than"][other]
    low, high = comparison["wall_range"]
    return f"{comparison['wall']:.2f} ({low:.2f} to {high:.2f}; {comparison['processor']:.2f})"


def share(row: Mapping[str, Any], precision: str) -> str:
    """Of the peak of the precision that is used."""
    return f"{row['share_of_peak'][precision]:.0%} of {precision}"


def first_loss(fact: Mapping[str, Any]) -> str:
    if fact["same_weights"]:
        return f"{fact['first_loss']:.4f} (float32 {fact['float32_loss']:.4f})"
    return f"{fact['first_loss']:.4f}, other weights"


def limits_line(limits: Mapping[str, Mapping[str, float]]) -> str:
    best = limits["best"]
    return (
        "Limits of the machine, measured between the turns: matrix products "
        f"{best['bfloat16'] / 1e9:,.0f} GFLOP/s in bf16 and {best['float32'] / 1e9:,.0f} in "
        f"float32; {best['read'] / 1e9:.1f} GB/s read from memory."
    )


def machine_line(results: Mapping[str, Any]) -> str:
    """Command, date, machine, versions, threads, load."""
    machine = results["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in results.get("versions", {}).items())
    device = machine.get("gpu") or f"{machine['processor']}, {machine['cores']} cores"
    return (
        f"`{results['command']}`, {results['date']}: {device} ({machine['capability']}), "
        f"{format_count(results['threads'], 'thread')}; {versions or 'torch ' + machine['torch']}; "
        "Python "
        f"{machine['python']}; commit {results['commit']}; load average before it "
        f"{results['load_before']:.1f} (below 1 is quiet)."
    )


def format_count(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def notes(result: Mapping[str, Any]) -> str:
    """What has to be known to read the table."""
    others = [name for name, fact in result["facts"].items() if not fact["same_weights"]]
    turns = next(iter(result["turns"].values()))
    text = (
        f"Medians over {format_count(len(turns), 'turn')} of "
        f"{format_count(turns[0]['steps'], 'update')}; "
        "ratios are medians of those round by round. FLOPs of an update: "
        f"{result['flops'] / 1e9:,.1f} G, that is 6 (12 L d^2 + V d) + 6 L d (T + 1) a token. "
        "Where the first loss in float32 is one, the weights were the same."
    )
    if result["settled"]:
        text += (
            " With the settings of pellucid's command line for its process: "
            f"{'; '.join(result['settled'])}."
        )
    if others:
        text += (
            f" With weights of their own draw: {'; '.join(others)}; the loss of guessing is "
            f"ln V = {result['ln_vocab']:.4f}."
        )
    return text
