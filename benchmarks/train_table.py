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
OURS = "pellucid, vital signs"


def summary(
    turns: Mapping[str, Sequence[Turn]], shape: Shape, limits: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, Any]]:
    """For each contestant its speed, its share of each peak, and the ratios to all the others.

    `faster_than[b]` of a is how many of a's updates fit into one of b's; by both clocks.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, own in turns.items():
        wall, processor = seconds(own), seconds(own, "processor")
        found[name] = {
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
            "peak_bytes": own[-1].peak_bytes,
            "last_loss": own[-1].found["loss"],
            "faster_than": {
                other: {
                    "wall": ratio(theirs, own),
                    "wall_range": [min(ratios(theirs, own)), max(ratios(theirs, own))],
                    "processor": ratio(theirs, own, "processor"),
                }
                for other, theirs in turns.items()
                if other != name
            },
        }
    return found


def tables(found: Mapping[str, Any]) -> str:
    """Every shape's table."""
    return "\n\n".join(table(found, name) for name in found["shapes"])


def table(found: Mapping[str, Any], name: str) -> str:
    """A shape's results as Markdown, below a line that says what was run."""
    result = found["shapes"][name]
    rows = result["summary"]
    ours = next((one for one in (OURS, *rows) if one in rows and one.startswith("pellucid")), None)
    lines = [
        f"**{name}**: {result['said']}. Ids: {result['ids']}. {machine_line(found)}",
        "",
        limits_line(result["limits"]),
        "",
        f"| | tokens/s | {ours or 'pellucid'} is faster by (range; by processor time) "
        "| share of peak | peak MB | parameters | first loss | loss at the end |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one, row in rows.items():
        fact = result["facts"][one]
        peak = share(row, fact["precision"])
        lines.append(
            f"| {one} | {row['tokens_per_second']:,.0f} | {faster(rows, ours, one)} | {peak} | "
            f"{row['peak_bytes'] / 1e6:,.0f} | {fact['parameters']:,} | {first_loss(fact)} | "
            f"{row['last_loss']:.3f} |"
        )
    lines += ["", notes(result)]
    return "\n".join(lines)


def faster(rows: Mapping[str, Any], ours: str | None, other: str) -> str:
    """How many times as fast as `other` pellucid is, with the range over rounds."""
    if ours is None or ours == other:
        return ""
    known = rows[ours]["faster_than"][other]
    low, high = known["wall_range"]
    return f"{known['wall']:.2f} ({low:.2f} to {high:.2f}; {known['processor']:.2f})"


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


def machine_line(found: Mapping[str, Any]) -> str:
    """Command, date, machine, versions, threads, load."""
    machine = found["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in found.get("versions", {}).items())
    device = machine.get("gpu") or f"{machine['processor']}, {machine['cores']} cores"
    return (
        f"`{found['command']}`, {found['date']}: {device} ({machine['capability']}), "
        f"{counted(found['threads'], 'thread')}; {versions or 'torch ' + machine['torch']}; Python "
        f"{machine['python']}; commit {found['commit']}; load average before it "
        f"{found['load_before']:.1f} (below 1 is quiet)."
    )


def counted(number: int, what: str) -> str:
    """A number of things."""
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"


def notes(result: Mapping[str, Any]) -> str:
    """What has to be known to read the table."""
    others = [name for name, fact in result["facts"].items() if not fact["same_weights"]]
    turns = next(iter(result["turns"].values()))
    text = (
        f"Medians over {counted(len(turns), 'turn')} of {counted(turns[0]['steps'], 'update')}; "
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
