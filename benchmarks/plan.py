"""How far off `pellucid plan` is for published runs, row by row.

    python -m benchmarks.plan            # all rows, and results/plan-DATE.json
    python -m benchmarks.plan --fit      # fit the constants of kinds.toml again, and print them

Six rows are fitted: four shares of the peak, by least squares of the logarithms of their speeds.
All other rows are not. Nothing is trained, so any machine gives the same numbers.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import commit, write
from benchmarks.plan_published import Published, published
from benchmarks.workers import print_progress
from pellucid.planning import kinds

#: The constants: the first kind of each pair has the shares of both.
_CHIPS = {"h100": ("products", "attention"), "a100-80gb": ("products", "attention")}


def main() -> None:
    parser = argparse.ArgumentParser(description="how far off predictions of published runs are")
    parser.add_argument("--fit", action="store_true", help="fit the shares of the peak again")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    rows = published()
    if arguments.fit:
        for name, value in fitted(rows).items():
            print_progress(f"{name} = {value:.3f}")
        return
    from datetime import datetime

    results: dict[str, Any] = {
        "date": datetime.now().strftime("%Y-%m-%d"),
        "command": "python -m benchmarks.plan",
        "commit": commit(Path(__file__).parent.parent),
        "rows": [figures(row) for row in rows],
    }
    for row in results["rows"]:
        print_progress(format_row(row))
    for name, numbers in summaries(results["rows"]).items():
        print_progress(
            f"{name:<44} {numbers['rows']:3} rows, median {numbers['median']:.1%}, worst "
            f"{numbers['worst']:.1%}"
        )
    write(results, arguments.into, "plan")


def figures(row: Published) -> dict[str, Any]:
    """The published and the predicted numbers of a run."""
    plan = row.plan()
    speed = plan.tokens_per_second / row.layout.devices
    numbers: dict[str, Any] = {
        "name": row.name,
        "source": row.source,
        "table": row.table,
        "kind": row.kind,
        "devices": row.layout.devices,
        "shard": row.layout.shard,
        "recompute": row.layout.recompute,
        "fits": list(row.fits),
        "tokens_per_second": row.tokens_per_second,
        "predicted_tokens_per_second": round(speed, 1),
        "fits_memory": plan.fits,
        "speed_off": round(speed / row.tokens_per_second - 1, 4),
    }
    if row.gib is not None:
        gib = plan.memory_per_device / 2**30
        numbers |= {"gib": row.gib, "predicted_gib": round(gib, 1)}
        numbers["memory_off"] = round(gib / row.gib - 1, 4)
    return numbers


def format_row(row: dict[str, Any]) -> str:
    """A row as a line."""
    memory = f" {row['gib']:5.1f} GiB {row['memory_off']:+6.1%}" if "gib" in row else ""
    star = "*" if row["fits"] else " "
    return (
        f"{row['name']:<36}{star} {row['devices']:3} {row['kind']:<14} {row['recompute']:<9} "
        f"{row['tokens_per_second']:9,.0f} {row['predicted_tokens_per_second']:9,.0f} "
        f"{row['speed_off']:+6.1%}{memory}"
    )


def summaries(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Median and worst error of the rows that nothing was fitted to."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        if "memory_off" in row and not any("memory" in text for text in row["fits"]):
            groups.setdefault("memory", []).append(row["memory_off"])
        if any("peak" in text for text in row["fits"]):
            continue
        table = "speed, " + {"SCALE": "short table", "more": "more runs"}.get(row["table"], "MPT")
        if row["table"] == "MPT":
            context = int(row["name"].rpartition(" ")[2])
            table += f", {row['kind']}, " + ("up to 4,096" if context <= 4096 else "longer")
        groups.setdefault(table, []).append(row["speed_off"])
    return {
        name: {
            "rows": len(errors),
            "median": median(map(abs, errors)),
            "worst": max(map(abs, errors)),
        }
        for name, errors in groups.items()
    }


def fitted(rows: list[Published]) -> dict[str, float]:
    """The shares of the peak that the fitted rows give."""
    from scipy.optimize import least_squares

    used = [row for row in rows if any("peak" in text for text in row.fits)]
    names = [(chip, share) for chip, shares in _CHIPS.items() for share in shares]

    def errors(values: list[float]) -> list[float]:
        shares: dict[str, dict[str, float]] = {}
        for (chip, share), value in zip(names, values, strict=True):
            shares.setdefault(chip, {})[share] = float(value)
        return [
            math.log(
                row.plan(replace(row.found_kind, **shares[row.kind])).tokens_per_second
                / row.layout.devices
                / row.tokens_per_second
            )
            for row in used
        ]

    start = [getattr(kinds()[chip], share) for chip, share in names]
    solution = least_squares(errors, start)
    return {
        f"{chip}.{share}": float(value)
        for (chip, share), value in zip(names, solution.x, strict=True)
    }


if __name__ == "__main__":
    main()
