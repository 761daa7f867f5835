"""Every experiment of `pellucid experiment`, measured once: verdicts and times.

    python -m benchmarks.experiments --quick
    python -m benchmarks.experiments --quick --seeds 5 lora-rank dropout
    python -m benchmarks.experiments --page

The names choose experiments; what the file of the day has of the others stays. Seconds are by the
clock, on the threads that torch takes; `load` is the machine's load when an experiment began.

Comes in: nothing, or names. Goes out: a dated JSON file under benchmarks/results/, and the table of
docs/experiments.md. The last form writes the table again from the newest file.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.machine import machine
from pellucid.course.experiments import EXPERIMENTS, conduct, find, result_facts

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "docs" / "experiments.md"
BEGIN, END = "<!-- the table: python -m benchmarks.experiments -->", "<!-- the end of the table -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these experiments")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seeds", type=int, help="instead of the usual number")
    parser.add_argument("--page", action="store_true", help="only write the table again")
    arguments = parser.parse_args()
    if not arguments.page:
        file = FOLDER / "results" / f"experiments-{time.strftime('%Y-%m-%d')}.json"
        measure(file, arguments.names or list(EXPERIMENTS), arguments.quick, arguments.seeds)
    write_table(newest())


def measure(file: Path, names: list[str], quick: bool, seeds: int | None) -> None:
    results: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    results.setdefault("experiments", {})
    results |= {"machine": machine(), "threads": torch.get_num_threads()}
    for name in names:
        load = os.getloadavg()[0]
        facts = result_facts(conduct(find(name), quick=quick, seeds=seeds))
        saved_keys = ("measured", "outcomes", "verdict", "seeds", "quick", "seconds")
        results["experiments"][name] = {key: facts[key] for key in saved_keys} | {
            "load": round(load, 1)
        }
        # after each, so that an interrupted run loses one experiment
        file.write_text(json.dumps(rounded(results), indent=1) + "\n", encoding="utf-8")
        print(f"{name:36} {facts['verdict']:26} {facts['seconds']:7.1f} s", flush=True)


def newest() -> dict[str, Any]:
    files = sorted((FOLDER / "results").glob("experiments-*.json"))
    if not files:
        raise SystemExit("there are no results yet: python -m benchmarks.experiments --quick")
    return json.loads(files[-1].read_text("utf-8")) | {"file": files[-1].name}


def write_table(results: dict[str, Any]) -> None:
    """The table between the two marks of the page."""
    before, _, after_begin = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = after_begin.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{after}", encoding="utf-8")


def table(results: dict[str, Any]) -> str:
    machine = results["machine"]
    lines = [
        f"Measured with `--quick` on {machine['cores']} cores ({machine['processor']}), "
        f"{results['threads']} threads, torch {machine['torch']}; other work ran on the machine "
        f"too. [All numbers](../benchmarks/results/{results['file']}).",
        "",
        "| experiment | claim | verdict | seconds |",
        "|---|---|---|---|",
    ]
    for name, experiment in EXPERIMENTS.items():
        row = results["experiments"].get(name)
        verdict = "not measured" if row is None else f"**{row['verdict']}**"
        seconds = "" if row is None else f"{row['seconds']:.1f}"
        lines.append(f"| `{name}` | {experiment.claim} | {verdict} | {seconds} |")
    return "\n".join(lines)


def rounded(tree: Any) -> Any:
    """Five digits; a text for a number that JSON does not have."""
    if isinstance(tree, dict):
        return {key: rounded(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [rounded(value) for value in tree]
    if isinstance(tree, float):
        return float(f"{tree:.5g}") if abs(tree) < float("inf") else str(tree)
    return tree


if __name__ == "__main__":
    main()
