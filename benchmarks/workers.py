"""Contestants in processes of their own, at work one at a time, in turns whose order alternates.

Other load on a shared machine changes slowly compared with a turn, and hits all contestants of a
round alike. So what counts is the median over turns, and for two contestants the median of their
ratios, round by round.

Comes in: contestants. Goes out: their turns, medians and ratios. It does not know what they do: see
`benchmarks.worker`, which is the other end of the pipe.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
#: Settings that a contestant may only get from its own description.
_SETTINGS = (
    "OMP_", "MKL_", "KMP_", "GOMP_", "MALLOC_", "THP_", "LD_PRELOAD", "ONEDNN_", "DNNL_", "ATEN_"
)  # fmt: skip


@dataclass(frozen=True)
class Contestant:
    """A name for the tables; the function that makes it, and its JSON values; process settings.

    `allocator_settled`: with the settings that pellucid's command line gives its process.
    """

    name: str
    make: str
    setup: Mapping[str, Any] = field(default_factory=dict)
    allocator_settled: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """What a contestant did in its turn; seconds are of all its steps."""

    steps: int
    wall: float
    processor: float
    peak_bytes: int
    found: Mapping[str, Any]


class Worker:
    """A contestant's process, started when this is made; at rest but in its turns.

    Raises:
        SystemExit: the contestant failed; says how.
    """

    def __init__(self, contestant: Contestant, threads: int) -> None:
        self.name = contestant.name
        order = {
            "make": contestant.make,
            "setup": dict(contestant.setup),
            "settled": contestant.allocator_settled,
        }
        # open as long as the process lives
        self._printed = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            text=True,
            cwd=ROOT,
            env=environment(os.environ, threads) | contestant.environment,
        )
        self.facts: dict[str, Any] = {}
        #: resident before the first turn
        self.held_bytes = 0

    def wait(self) -> None:
        """Until the contestant is made, and its facts are here."""
        answer = self._answer()
        self.facts, self.held_bytes = answer["facts"], answer["held_bytes"]
        print_progress(f"{self.name}: ready in {answer['start_seconds']:.0f} s")

    def work(self, steps: int) -> Turn:
        """One turn."""
        self.begin(steps)
        return self.end()

    def begin(self, steps: int) -> None:
        """Tell it to take a turn."""
        assert self._process.stdin is not None
        print(json.dumps({"steps": steps}), file=self._process.stdin, flush=True)

    def end(self) -> Turn:
        """The turn that it was asked to take."""
        return Turn(**self._answer())

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._printed.close()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"exit code {self._process.wait()}"}
        if "error" in answer:
            self._printed.seek(0)
            printed = self._printed.read()[-2000:]
            self.close()
            raise SystemExit(f"{self.name} failed: {answer['error']}\n{printed}")
        return answer


def environment(variables: Mapping[str, str], threads: int) -> dict[str, str]:
    """The environment without settings of allocator and threads, but with the number of threads."""
    own_variables = {
        name: value for name, value in variables.items() if not name.startswith(_SETTINGS)
    }
    return own_variables | {"OMP_NUM_THREADS": str(threads)}


@contextmanager
def started(
    contestants: Iterable[Contestant], threads: int, *, concurrently: bool = False
) -> Generator[list[Worker]]:
    """A worker each, made one after the other or all together; ended with the block."""
    workers: list[Worker] = []
    try:
        for contestant in contestants:
            workers.append(Worker(contestant, threads))
            if not concurrently:
                workers[-1].wait()
        for worker in workers if concurrently else ():
            worker.wait()
        yield workers
    finally:
        for worker in workers:
            worker.close()


def work_together(workers: Sequence[Worker], steps: int) -> dict[str, Turn]:
    """A turn of all at the same time: to warm up, not to compare."""
    for worker in workers:
        worker.begin(steps)
    return {worker.name: worker.end() for worker in workers}


def in_turns(workers: Sequence[Worker], rounds: int, steps: int) -> dict[str, list[Turn]]:
    """Every worker's turns of `steps`, one per round; each second round goes the other way."""
    turns: dict[str, list[Turn]] = {worker.name: [] for worker in workers}
    for number in range(rounds):
        began = time.perf_counter()
        for worker in ordered(workers, number):
            turns[worker.name].append(worker.work(steps))
        seconds = time.perf_counter() - began
        load = os.getloadavg()[0]
        print_progress(f"round {number + 1} of {rounds}: {seconds:.0f} s, load {load:.1f}")
    return turns


def ordered(workers: Sequence[Worker], number: int) -> Sequence[Worker]:
    """The order of a round."""
    return workers if number % 2 == 0 else workers[::-1]


def seconds(turns: Iterable[Turn], clock: str = "wall") -> float:
    """The median over turns of the seconds of a step; `clock` is "wall" or "processor"."""
    return statistics.median(getattr(turn, clock) / turn.steps for turn in turns)


def ratio(turns: Sequence[Turn], reference: Sequence[Turn], clock: str = "wall") -> float:
    """How many times as long a step of `turns` takes as one of `reference`: median over rounds."""
    return statistics.median(ratios(turns, reference, clock))


def ratios(turns: Sequence[Turn], reference: Sequence[Turn], clock: str = "wall") -> list[float]:
    """The same, round by round."""
    return [
        (getattr(a, clock) / a.steps) / (getattr(b, clock) / b.steps)
        for a, b in zip(turns, reference, strict=True)
    ]


def steps_for(worker_seconds: Iterable[float], turn_seconds: float) -> int:
    """So many steps that the median contestant's turn takes about `turn_seconds`, at least one."""
    return max(1, round(turn_seconds / statistics.median(worker_seconds)))


def print_progress(text: str) -> None:
    """A line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
