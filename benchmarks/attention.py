"""Softmax, linear and memory attention side by side, at equal parameters.

    python -m benchmarks.attention
    python -m benchmarks.attention --page benchmarks/results/attention-DATE.json

Five kinds: full softmax attention; the same over a window; linear attention; a window together with
a memory that learns at test time; the same, frozen. Two layers each; d_ff is chosen so that
parameters match within 1%. It measures recall at a distance, held-out loss, and tokens per second
and peak memory of a training step against length. Each has its own process.

Comes in: nothing; `--seeds`, `--recall-steps` and the like change the amounts. Goes out: a dated
JSON file under benchmarks/results/, plots under docs/attention/, and the tables of
docs/attention.md. It keeps each result in `--keep` at once, and a second call with the same amounts
continues from there. The second form draws the page again from results that are there.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.attention_page import draw, tables
from benchmarks.attention_tasks import KINDS
from benchmarks.machine import machine
from benchmarks.workers import print_progress

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "docs" / "attention.md"
#: So that workers end at about the same time.
SLOWEST_FIRST = ("memory", "frozen", "linear", "window", "softmax")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--recall-steps", type=int, default=600)
    parser.add_argument("--language-steps", type=int, default=300)
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096])
    parser.add_argument("--tokens", type=int, default=8192, help="of a timed training step")
    parser.add_argument("--repetitions", type=int, default=3, help="of a timed training step")
    parser.add_argument("--workers", type=int, default=1, help="that train at the same time")
    parser.add_argument("--keep", type=Path, help="a folder for the measurements so far")
    parser.add_argument("--page", type=Path, help="draw the page again from these results")
    arguments = parser.parse_args()
    if arguments.page is not None:
        write_page(json.loads(arguments.page.read_text(encoding="utf-8")))
        return
    results = measure(arguments)
    folder = FOLDER / "results"
    folder.mkdir(exist_ok=True)
    file = folder / f"attention-{results['date']}.json"
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print_progress(f"wrote {file}")
    write_page(results)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Losses and recall, which do not depend on the machine; then times, one after the other."""
    seeds = arguments.seeds
    run_kept = partial(run_once, arguments.keep)
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine() | {"system": platform.system()},
        "arguments": {k: v for k, v in vars(arguments).items() if k not in ("page", "keep")},
        "recall": {},
        "language": {},
        "steps": [],
    }
    amounts = {"recall": arguments.recall_steps, "language": arguments.language_steps}
    trained = [
        {"task": task, "kind": kind, "seeds": seeds, "steps": steps}
        for task, steps in amounts.items()
        for kind in sorted(KINDS, key=SLOWEST_FIRST.index)
    ]
    with ThreadPoolExecutor(arguments.workers) as pool:
        for task, result in zip(trained, pool.map(run_kept, trained), strict=True):
            results[task["task"]][task["kind"]] = result
    for length in arguments.lengths:
        for kind in KINDS:
            step_task = {"task": "step", "kind": kind, "length": length}
            step_task |= {"tokens": arguments.tokens, "repetitions": arguments.repetitions}
            results["steps"].append({"kind": kind, "length": length, **run_kept(step_task)})
    return results


def run_once(keep: Path | None, task: dict[str, Any]) -> Any:
    """The measurement of a task, or its kept result from an earlier call."""
    if keep is None:
        return run(task)
    file = keep / ("-".join(re.findall(r"\w+", "-".join(map(str, task.values())))) + ".json")
    if not file.exists():
        result = run(task)
        keep.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(result), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def run(task: dict[str, Any]) -> Any:
    """What a process of its own measured."""
    print_progress(json.dumps(task))
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.attention_tasks", json.dumps(task)],
        capture_output=True,
        text=True,
        check=False,
        cwd=FOLDER.parent,
    )
    if process.returncode:
        raise SystemExit(f"{task} failed:\n{process.stdout[-2000:]}{process.stderr[-4000:]}")
    return json.loads(process.stdout.splitlines()[-1])


def write_page(results: dict[str, Any]) -> None:
    """The plots, and the tables between their marks in the page."""
    for name, drawing in draw(results).items():
        file = PAGE.parent / "attention" / f"{name}.svg"
        file.parent.mkdir(exist_ok=True)
        file.write_text(drawing, encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables(results).items():
        mark = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        text, n_replaced = re.subn(mark, lambda m, t=table: m[1] + t + m[2], text, flags=re.S)
        assert n_replaced == 1, name
    PAGE.write_text(text, encoding="utf-8")
    print_progress(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
