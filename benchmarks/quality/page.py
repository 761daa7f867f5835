"""A race as a Markdown table, below a line with the command and the machine.

Comes in: results. Goes out: text. It does not know how they were found.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.train_table import machine_line


def table(race: Mapping[str, Any]) -> str:
    """One race; `time` is the median over seeds of whole commands against the peer's."""
    peer = race["peer"]
    lines = [
        machine_line(race),
        "",
        "| | seconds | time | bits per byte, mean | of each seed | nats per byte, mean | updates |",
        "|---|---|---|---|---|---|---|",
        row(peer["name"], [peer["seconds"]], peer["seconds"], peer["losses"], peer.get("updates")),
    ]
    for name, shares in race["runs"].items():
        for share, runs in shares.items():
            label = f"{name}, to be kept: {float(share):g} of the time"
            complete = [run for run in runs if "problem" not in run]
            if len(complete) < len(runs):
                start_up = race["start_up_seconds"][name]
                lines.append(f"| {label} | start-up alone takes {start_up:.1f} | | | | | |")
                continue
            lines.append(
                row(
                    label,
                    [run["seconds"] for run in complete],
                    peer["seconds"],
                    [run["bits_per_byte"] for run in complete],
                    [run["updates"] for run in complete],
                )
            )
    return "\n".join(lines)


def row(
    name: str,
    seconds: list[float],
    peer_seconds: float,
    losses: list[float],
    updates: list[int] | None,
) -> str:
    """One line of the table."""
    mean = statistics.mean(losses)
    return (
        f"| {name} | {span(seconds, '.1f')} | {statistics.median(seconds) / peer_seconds:.2f} | "
        f"{mean:.4f} | {', '.join(f'{loss:.4f}' for loss in losses)} | "
        f"{mean * math.log(2):.4f} | {span(updates, 'd') if updates else ''} |"
    )


def span(values: list[Any], form: str) -> str:
    """The least and the most."""
    smallest, largest = format(min(values), form), format(max(values), form)
    return smallest if smallest == largest else f"{smallest} to {largest}"
