"""Two versions of pellucid, side by side: starting, training, decoding, explaining.

    python -m benchmarks.versions BEFORE_PYTHON --rounds 7 --json out.json

BEFORE_PYTHON is the Python of an environment that holds the older version; the Python that runs
this has the newer one. Each command is a whole process, as a user starts it. The two take turns,
the order alternates, and what counts is the ratio of each round: by the clock, and by the
processor's time, which other processes of the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.machine import machine

SENTENCE = "the function returns a list"
#: Commands of both versions; RUN is a run that the version trained itself.
COMMANDS = {
    "start": ["presets", "list"],
    "train, 20 updates": ["train", "--steps", "20", "--out", "NEW", "--json"],
    "train, 120 updates": ["train", "--steps", "120", "--out", "NEW", "--json"],
    "generate, 2 tokens": ["generate", "RUN", "--prompt", SENTENCE, "--max-new-tokens", "2"],
    "generate, 802 tokens": ["generate", "RUN", "--prompt", SENTENCE, "--max-new-tokens", "802"],
    "explain": ["explain", "RUN", SENTENCE, "--json"],
    "explain, softmax": ["explain", "RUN", SENTENCE, "--chapter", "softmax", "--json"],
    "explain, update": ["explain", "RUN", SENTENCE, "--chapter", "update", "--json"],
}
#: What a command costs beyond another one: without the start, which both have.
DIFFERENCES = {
    "100 updates": ("train, 120 updates", "train, 20 updates"),
    "800 tokens": ("generate, 802 tokens", "generate, 2 tokens"),
}
UNITS = ("wall", "processor")


def seconds(python: str, command: list[str], folder: Path) -> dict[str, float]:
    """What a command takes, by the clock and of the processor.

    Raises:
        SystemExit: The command failed.
    """
    new = folder / f"new-{time.monotonic_ns()}"
    filled = [{"RUN": str(folder / "run"), "NEW": str(new)}.get(word, word) for word in command]
    before, started = os.times(), time.perf_counter()
    process = subprocess.run(
        [python, "-P", "-m", "pellucid", *filled], cwd=folder, capture_output=True, check=False
    )
    wall, after = time.perf_counter() - started, os.times()
    if process.returncode:
        raise SystemExit(f"{python}: {' '.join(filled)}: {process.stderr.decode()[-800:]}")
    processor = (
        after.children_user - before.children_user + after.children_system - before.children_system
    )
    return {"wall": wall, "processor": processor}


def compare(pythons: dict[str, str], rounds: int) -> dict[str, dict[str, list[dict[str, float]]]]:
    """The seconds of every round by command and version."""
    seconds_of: dict[str, dict[str, list[dict[str, float]]]] = {
        name: {version: [] for version in pythons} for name in COMMANDS
    }
    with tempfile.TemporaryDirectory() as temporary:
        folders = {version: Path(temporary, version) for version in pythons}
        for version, folder in folders.items():
            folder.mkdir()
            seconds(pythons[version], ["train", "--steps", "20", "--out", "RUN"], folder)
        for turn in range(rounds):
            order = list(pythons)[:: 1 if turn % 2 else -1]
            for name, command in COMMANDS.items():
                for version in order:
                    seconds_of[name][version].append(
                        seconds(pythons[version], command, folders[version])
                    )
            print(f"round {turn + 1} of {rounds}", file=sys.stderr, flush=True)
    for name, (longer, shorter) in DIFFERENCES.items():
        seconds_of[name] = {
            version: [
                {unit: a[unit] - b[unit] for unit in UNITS}
                for a, b in zip(
                    seconds_of[longer][version], seconds_of[shorter][version], strict=True
                )
            ]
            for version in pythons
        }
    return seconds_of


def summarise(rounds: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Median seconds of both, and median, least and largest ratio of a round, after to before."""
    row: dict[str, Any] = {}
    for unit in UNITS:
        ratios = [
            after[unit] / before[unit]
            for before, after in zip(rounds["before"], rounds["after"], strict=True)
        ]
        row[unit] = {
            **{v: round(statistics.median(r[unit] for r in rounds[v]), 3) for v in rounds},
            "ratio": round(statistics.median(ratios), 3),
            "least": round(min(ratios), 3),
            "largest": round(max(ratios), 3),
        }
    return row


def main() -> None:
    """Measure, and print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="Python of the environment that holds the older version")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each (default: 7)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    seconds_of = compare({"before": arguments.before, "after": sys.executable}, arguments.rounds)
    rows = {name: summarise(rounds) for name, rounds in seconds_of.items()}
    for name, row in rows.items():
        for unit in UNITS:
            times = row[unit]
            print(
                f"{name:22} {unit:10} {times['before']:8.3f} s  {times['after']:8.3f} s  "
                f"x{times['ratio']:.3f} ({times['least']:.3f} to {times['largest']:.3f})"
            )
    if arguments.json:
        report = {
            "date": datetime.now().astimezone().date().isoformat(),
            "machine": machine(),
            "threads": 1,
            "rounds": arguments.rounds,
            "commands": rows,
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
