"""Several processes for one experiment: each trains what no other one does."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import torch

from pellucid import children
from pellucid.errors import PellucidError, RunError
from pellucid.free_memory import forcing
from pellucid.lab.experiment import Experiment, read_design
from pellucid.lab.train_runs import Advance, train_missing
from pellucid.lab.tuning import tune_all

#: The beginning of the line with which a worker that failed ends.
_ERROR = "error: "


def run_workers(
    experiment: Experiment, n_workers: int, notify: Callable[[str], None], *, force: bool = False
) -> None:
    """Work on an experiment in so many processes, until none finds anything more to do.

    A worker that is killed leaves its run to the others. If all are, the caller does the rest.

    Args:
        experiment: the experiment, whose design is in its folder.
        n_workers: the processes; they share the threads of this one.
        notify: takes a line for each run or trial that is over.
        force: train even if pellucid expects to need more memory than is free.

    Raises:
        RunError: a worker failed; the other ones save and stop.
    """
    threads = max(1, torch.get_num_threads() // n_workers)
    call = f"work_on({str(experiment.out)!r}, {threads}, {force})"
    command = children.python(f"from pellucid.lab.workers import work_on; {call}")
    workers = [children.start(command) for _ in range(n_workers)]
    lines: queue.Queue[str | None] = queue.Queue()
    relays = [
        threading.Thread(target=_relay, args=(worker, lines), daemon=True) for worker in workers
    ]
    for relay in relays:
        relay.start()
    n_working = n_workers
    try:
        while n_working:
            line = lines.get()
            if line is None:
                n_working -= 1
            elif line.startswith(_ERROR):
                raise RunError(line.removeprefix(_ERROR))
            else:
                notify(line)
    finally:
        for worker in workers:
            worker.terminate()  # it saves first
        for worker, relay in zip(workers, relays, strict=True):
            relay.join()
            with worker:  # closes its pipes
                worker.wait()


def work_on(out: str, n_threads: int, force: bool) -> None:
    """Finish the experiment in a folder: the work of one worker.

    Args:
        out: the folder with the design.
        n_threads: the threads of torch.
        force: train even if pellucid expects to need more memory than is free.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(n_threads)

    def report(advance: Advance) -> None:
        if advance.is_new:
            _print_line(advance.result)

    try:
        with forcing(force):
            train_missing(tune_all(read_design(Path(out)), _print_line), report)
    except PellucidError as error:
        _print_line(f"{_ERROR}{error}")


def _print_line(line: str) -> None:
    with suppress(OSError):  # the parent is gone
        print(" ".join(line.split()), flush=True)


def _end_with_parent() -> None:
    """Stop, and save, when the parent ends: nothing else closes our standard input."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _relay(worker: children.Child, lines: queue.Queue[str | None]) -> None:
    for line in cast("IO[bytes]", worker.stdout):
        lines.put(line.decode(errors="replace").strip())
    lines.put(None)
