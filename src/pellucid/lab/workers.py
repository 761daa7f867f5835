"""Several processes for one experiment: each trains what no other one does."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, cast

import torch

from pellucid import children
from pellucid.checkpoints import write_text
from pellucid.errors import ConfigError, Interrupted, PellucidError, RunError
from pellucid.free_memory import forcing
from pellucid.json_text import json_text
from pellucid.lab.experiment import DESIGN, Experiment, read_design
from pellucid.lab.outcome import Outcome
from pellucid.lab.train_runs import Advance, train_missing
from pellucid.lab.tuning import tune_all

#: The beginning of the line with which a worker that failed ends.
_ERROR = "error: "


def train_all(
    experiment: Experiment, n_workers: int, notify: Callable[[str], None], *, force: bool = False
) -> tuple[Experiment, dict[Path, Outcome]]:
    """Train every run of an experiment that is missing, after tuning if it asks for that.

    Args:
        experiment: the variants, the seeds and the folder, which is made if it is missing.
        n_workers: the number of processes.
        notify: takes a line for each run that is over.
        force: train even if pellucid expects to need more memory than is free.

    Returns:
        The experiment with tuned values, and the outcome of each run by its folder.

    Raises:
        ConfigError: there would be no process.
        RunError: the folder cannot be made, or the data have changed.
        PellucidError: as `pellucid.train`.
    """
    if n_workers < 1:
        raise ConfigError(f"workers must be at least 1, was {n_workers}")
    _write_design(experiment)

    def report(advance: Advance) -> None:
        if advance.is_new or n_workers == 1:  # workers have told theirs
            notify(str(advance))

    try:
        with forcing(force):
            if n_workers > 1:
                run_workers(experiment, n_workers, notify, force=force)
            experiment = tune_all(experiment, notify)
            return experiment, train_missing(experiment, report)
    except Interrupted as stop:
        raise Interrupted(
            f"{stop}; nothing is lost: the same command continues in {experiment.out}", stop.signal
        ) from None


def _write_design(experiment: Experiment) -> None:
    """Write the design for the workers, and for people."""
    try:
        experiment.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"{experiment.out} cannot be made ({error.strerror}): name another folder with --out"
        ) from None
    write_text(experiment.out / DESIGN, json_text(experiment.design(), indent=1))


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
    call = f"work_on({str(experiment.out)!r}, {threads}, {force}, {experiment.reward!r})"
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


def work_on(out: str, n_threads: int, force: bool, reward: str | None) -> None:
    """Finish the experiment in a folder: the work of one worker.

    Args:
        out: the folder with the design.
        n_threads: the threads of torch.
        force: train even if pellucid expects to need more memory than is free.
        reward: what judges answers, as the command of the user names it.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(n_threads)

    def report(advance: Advance) -> None:
        if advance.is_new:
            _print_line(advance.result)

    try:
        with forcing(force):
            experiment = replace(read_design(Path(out)), reward=reward)
            train_missing(tune_all(experiment, _print_line), report)
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
