"""How far off `pellucid plan` is for trainings on this processor: one thread, one process.

    python -m benchmarks.plan_measured

Shapes of `benchmarks.budget_shapes` are trained in their own processes. The time is the processor
time of the process, so other work on the machine disturbs it little; it still shares caches and
memory with that work. Four shapes gave the constants of the kind `cpu`; the others did not.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.budget import measured
from benchmarks.machine import header, write
from benchmarks.workers import print_progress
from pellucid.config import run_from_table
from pellucid.planning import Plan, plan_training
from pellucid.presets import find

FITTED = ("wide and shallow", "many rows", "deep and narrow", "long")
OTHERS = ("bfloat16", "vocabulary 50,257", "SGD", "no dropout", "accumulation", "nano")


def main() -> None:
    parser = argparse.ArgumentParser(description="how far off predictions of trainings here are")
    parser.add_argument("--data", type=Path, help="a text file")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--into", type=Path, default=Path(__file__).parent / "results")
    parser.set_defaults(after=4, processor=True)
    arguments = parser.parse_args()
    results = header("benchmarks.plan_measured", parser, arguments)
    results["rows"] = []
    for name in (*FITTED, *OTHERS):
        results["rows"].append(row := figures(name, measured(name, arguments)))
        print_progress(format_row(row))
        write(results, arguments.into, "plan-cpu")


def figures(name: str, training: dict[str, Any]) -> dict[str, Any]:
    """The update and the peak of a shape.

    The first update fetches memory, and is left out. The fastest of the others counts: other work
    on the machine makes an update slower, never faster.
    """
    paces = [amounts for work, *amounts in training["paces"] if work == "rows"]
    seconds = min(seconds / rows for seconds, rows in paces[1:])
    return {
        "name": name,
        "fitted": name in FITTED,
        "precision": training["conditions"]["precision"],
        "step_seconds": round(seconds * training["config"]["training"]["batch_size"], 4),
        "peak_bytes": training["peak_bytes"],
        "config": training["config"],
    }


def predicted(row: Mapping[str, Any]) -> Plan:
    """The plan of a shape that was measured."""
    return plan_training(run_from_table(dict(row["config"]), find), "cpu")


def format_row(row: Mapping[str, Any]) -> str:
    """A row as a line."""
    plan = predicted(row)
    seconds, n_bytes = row["step_seconds"], row["peak_bytes"]
    return (
        f"{row['name']:<20}{'*' if row['fitted'] else ' '} {seconds:7.3f} s "
        f"{plan.step_seconds / seconds - 1:+6.1%}, {n_bytes / 1e6:6.0f} MB "
        f"{plan.memory_per_device / n_bytes - 1:+6.1%}"
    )


if __name__ == "__main__":
    main()
