"""How far off the estimates of memory and time are that a training begins with.

    python -m benchmarks.budget

Each shape is trained in a fresh process with the allocator settings of the command line. It
compares the peak of resident memory (VmHWM) with `counting.peak_memory`. It also compares the
predicted durations, before the first update and after `--after` updates, with the time that the
training took. Memory does not depend on what else the machine does; durations do. Read them from a
quiet machine, or with `--processor`: then every clock counts the processor's time for this process,
where waiting for others is not in, and waiting for the disk neither.

Comes in: a text file; left out, the sources of Python's standard library. Goes out:
`results/budget-DATE.json`, and lines. It does not know how either is estimated.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.budget_shapes import SHAPES, Shape, cut_rows
from benchmarks.machine import header, write
from benchmarks.worker import memory, own_output, settle
from benchmarks.workers import print_progress

_TEXT_BYTES = 500_000


def main() -> None:
    parser = argparse.ArgumentParser(description="how far off estimates of memory and time are")
    parser.add_argument("--data", type=Path, help="a text file")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--after", type=int, default=5, help="updates before time is foretold")
    parser.add_argument("--threads", type=int, default=1, help="where a shape does not say")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--processor", action="store_true", help="count the processor's time")
    parser.add_argument("--shape", action="append", choices=SHAPES)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        answers = own_output()
        print(json.dumps(trained(arguments)), file=answers, flush=True)
        return
    results = header("benchmarks.budget", parser, arguments)
    results["shapes"] = {}
    for name in arguments.shape or SHAPES:
        results["shapes"][name] = row = measured(name, arguments)
        print_progress(f"{name:<20} {format_row(row)}")
        write(results, arguments.into, "budget")


def format_row(row: dict[str, Any]) -> str:
    """A shape's figures as a line."""
    memory_off = row["expected_bytes"] / row["peak_bytes"] - 1
    total_off = row["expected_seconds"] / row["seconds"] - 1
    left_off = row["foretold_seconds"] / row["seconds_left"] - 1
    return (
        f"{row['peak_bytes'] / 1e6:6.0f} MB, expected {memory_off:+6.1%}; {row['seconds']:6.1f} s, "
        f"expected {total_off:+6.1%}; {row['seconds_left']:6.1f} s left, foretold {left_off:+6.1%}"
    )


def measured(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """A shape, trained in a process of its own; so is what it starts from, before it."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        text.write_text(
            standard_library() if arguments.data is None else arguments.data.read_text("utf-8"),
            encoding="utf-8",
        )
        if SHAPES[name].start:
            in_child(f"start of {name}", folder, arguments)
        return in_child(name, folder, arguments)


def in_child(name: str, folder: str, arguments: argparse.Namespace) -> dict[str, Any]:
    words = ["--steps", arguments.steps, "--after", arguments.after, "--folder", folder]
    words += ["--processor"] if arguments.processor else []
    threads = SHAPES[name.removeprefix("start of ")].threads or arguments.threads
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.budget", "--child", name, *map(str, words)],
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(process.stdout)


def standard_library() -> str:
    """The sources of Python's standard library, as many as are needed."""
    files = sorted(Path(os.__file__).parent.glob("*.py"))
    return "\n".join(file.read_text("utf-8") for file in files)[:_TEXT_BYTES]


def trained(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train a shape, or what it starts from; the figures."""
    settle()
    if arguments.processor:
        time.perf_counter = time.process_time
    folder, name = arguments.folder, arguments.child
    shape = SHAPES[name.removeprefix("start of ")]
    if name not in SHAPES:
        return started(shape, folder)
    data = folder / "text.txt"
    if shape.rows is not None:
        cut_rows(data.read_text("utf-8"), shape.rows, folder / "rows.jsonl")
        data = folder / "rows.jsonl"
    return figures(shape, data, folder, arguments)


def started(shape: Shape, folder: Path) -> dict[str, Any]:
    """One update of the model that a shape starts from or learns from."""
    import pellucid

    settings = [*shape.start, "training.evaluate_tokens=512", "training.batch_size=1"]
    pellucid.train(
        [folder / "text.txt"], out=folder / "start", steps=1, settings=settings, show=False
    )
    return {}


def figures(
    shape: Shape, data: Path, folder: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """What a training of a shape was expected to take, and took."""
    import pellucid
    from pellucid.config import encode
    from pellucid.training import Event, Finished, Logged, Started
    from pellucid.training.forecast import Forecast
    from pellucid.vitals import watcher

    estimates = overheard(importlib.import_module("pellucid.runs.memory_budget"), "peak_memory")
    timed = overheard(importlib.import_module("pellucid.runs.train"), "expect_seconds")
    paces = overheard(Forecast, "add")
    moments: dict[str, float] = {}

    def note(event: Event) -> None:
        now = time.perf_counter()
        if isinstance(event, Started):
            moments["began"] = now
        if isinstance(event, Logged) and event.step == arguments.after:
            moments.update(at=now, foretold=event.seconds_left)
        if isinstance(event, Finished):
            moments["end"] = now

    start: dict[str, Any] = {}
    if shape.start:
        start = {"teacher" if shape.teaches else "start": folder / "start"}
    pellucid.train(
        [data],
        out=folder / "run",
        steps=arguments.steps,
        settings=[*at_intervals(arguments), *shape.settings],
        observers=[note],
        watchers=[watcher()] if shape.watched else [],
        show=False,
        **start,
        **shape.arguments,
    )
    (run, conditions), estimate = estimates[-1]
    return {
        "peak_bytes": memory("VmHWM"),
        "expected_bytes": estimate.n_bytes,
        "terms": {row.part: row.n_bytes for row in estimate.rows},
        "seconds": moments["end"] - moments["began"],
        "expected_seconds": timed[-1][1],
        "seconds_left": moments["end"] - moments["at"],
        "foretold_seconds": moments["foretold"],
        "paces": [[work, *numbers] for (_, work, *numbers), _ in paces],
        "conditions": asdict(conditions),
        "config": json.loads(json.dumps(encode(run)).replace(f"{folder}/", "")),
    }


def at_intervals(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Two evaluations and two checkpoints come after time is foretold."""
    half = max(arguments.after, arguments.steps // 2)
    return (
        f"training.log_every={arguments.after}",
        "training.evaluate_tokens=4096",
        f"training.evaluate_every={half}",
        f"training.checkpoint_every={half}",
    )


def overheard(owner: Any, name: str) -> list[tuple[tuple[Any, ...], Any]]:
    """What a function of a module or a class is called with from now on, and gives."""
    function, calls = getattr(owner, name), list[tuple[tuple[Any, ...], Any]]()

    def listening(*args: Any, **keywords: Any) -> Any:
        answer = function(*args, **keywords)
        calls.append((args, answer))
        return answer

    setattr(owner, name, listening)
    return calls


if __name__ == "__main__":
    main()
