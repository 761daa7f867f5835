"""Softmax, linear and memory attention side by side, at equal parameters.

    python -m benchmarks.attention
    python -m benchmarks.attention --page benchmarks/results/attention-DATE.json

Five kinds: full softmax attention; the same over a window; linear attention; a window beside a
memory that learns at test time; the same, frozen. Two layers each; d_ff is chosen so that
parameters match within 1%. What is measured: recall at a distance, held-out loss, and, each in a
process of its own, tokens per second and peak memory of a training step against length.

Comes in: nothing; `--seeds`, `--recall-steps` and the like change the amounts. Goes out: a dated
JSON file under benchmarks/results/, plots under docs/attention/, and the tables of
docs/attention.md. The second form draws the page again from results that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.attention_page import draw, tables
from benchmarks.attention_tasks import KINDS
from benchmarks.shakespeare import machine, say

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "attention.md"
#: What a machine that is not quiet may not hide: the load before and after each measurement.
Load = tuple[float, float, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--recall-steps", type=int, default=300)
    parser.add_argument("--language-steps", type=int, default=200)
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096])
    parser.add_argument("--tokens", type=int, default=8192, help="of a timed training step")
    parser.add_argument("--repetitions", type=int, default=3, help="of a timed training step")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--page", type=Path, help="draw the page again from these results")
    arguments = parser.parse_args()
    if arguments.page is not None:
        write_page(json.loads(arguments.page.read_text(encoding="utf-8")))
        return
    results = measure(arguments)
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    file = folder / f"attention-{results['date']}.json"
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    say(f"wrote {file}")
    write_page(results)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything, one after the other: timing last, when nothing else of ours runs."""
    seeds, threads = arguments.seeds, arguments.threads
    results: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine() | {"threads": threads, "system": platform.system()},
        "arguments": {k: v for k, v in vars(arguments).items() if k != "page"},
        "recall": {},
        "language": {},
        "steps": [],
    }
    for task, steps in (
        ("recall", arguments.recall_steps),
        ("language", arguments.language_steps),
    ):
        for kind in KINDS:
            results[task][kind] = run(
                {"task": task, "kind": kind, "seeds": seeds, "steps": steps, "threads": threads}
            )
    for length in arguments.lengths:
        for kind in KINDS:
            wanted = {"task": "step", "kind": kind, "length": length, "threads": threads}
            wanted |= {"tokens": arguments.tokens, "repetitions": arguments.repetitions}
            before = os.getloadavg()[0]
            result = run(wanted)
            results["steps"].append(
                {"kind": kind, "length": length, "load_before": before, **result}
            )
    return results


def run(task: dict[str, Any]) -> Any:
    """What a process of its own measured."""
    say(json.dumps(task))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.attention_tasks", json.dumps(task)],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parent,
    )
    if done.returncode:
        raise SystemExit(f"{task} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def write_page(results: dict[str, Any]) -> None:
    """The plots, and the tables between their marks in the page."""
    for name, drawing in draw(results).items():
        file = PAGE.parent / "attention" / f"{name}.svg"
        file.parent.mkdir(exist_ok=True)
        file.write_text(drawing, encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables(results).items():
        mark = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        text, found = re.subn(mark, lambda m, t=table: m[1] + t + m[2], text, flags=re.S)
        assert found == 1, name
    PAGE.write_text(text, encoding="utf-8")
    say(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
