"""Train the runs of an experiment: those that are missing, each once, in any number of processes.

A lock for each run lets processes that do not know each other share the work, also on a folder of
several machines. The system releases the lock of a killed process, and its run is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import filelock

from pellucid import config, runs
from pellucid.display.metric_labels import measured
from pellucid.errors import NonFiniteError, RunError
from pellucid.lab.experiment import Experiment, Variant
from pellucid.lab.outcome import LOSS, PER_BYTE, Outcome, outcome_of
from pellucid.reader import read_json_table
from pellucid.runs.prepare_text import data_file_hashes
from pellucid.saved_runs.folder import RunFolder
from pellucid.training import Interrupts, Observer
from pellucid.vitals import watcher

#: Seconds between two looks at runs that other processes train.
PATIENCE = 0.5


class RunKey(NamedTuple):
    """A run of an experiment: its variant and its seed."""

    variant: Variant
    seed: int

    def __str__(self) -> str:
        return f"{self.variant.name}, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """A run that is over: number `number` of `n_runs`; `is_new` if this call trained it."""

    key: RunKey
    number: int
    n_runs: int
    outcome: Outcome
    is_new: bool

    def __str__(self) -> str:
        suffix = "" if self.is_new else " (found)"
        return f"run {self.number}/{self.n_runs}, {self.result}{suffix}"

    @property
    def result(self) -> str:
        """The run and its value, or else its state."""
        outcome = self.outcome
        name = PER_BYTE if PER_BYTE in outcome.measures else LOSS
        value = outcome.value(name)
        end = outcome.state if value is None else measured(name).with_unit(value)
        return f"{self.key}: {end}"


Advances = Callable[[Advance], None]


class DataHashes:
    """The hashes of the data files today, computed once for each corpus."""

    def __init__(self) -> None:
        self._tables: dict[config.Text, object] = {}

    def check(self, text: config.Text, folder: RunFolder) -> None:
        """Refuse a run whose data files have changed since.

        Raises:
            RunError: names the run.
        """
        if text not in self._tables:
            self._tables[text] = data_file_hashes(text)
        if read_json_table(folder.data_files) != self._tables[text]:
            raise RunError(
                f"the data have changed since {folder.path} was trained on them: compare in "
                "another folder with --out, or put the old data back"
            )


def run_keys(experiment: Experiment) -> list[RunKey]:
    """Every run, seed by seed, so that an unfinished comparison has whole pairs."""
    return [RunKey(variant, seed) for seed in experiment.seeds for variant in experiment.variants]


def train_missing(
    experiment: Experiment, advance: Advances = lambda advance: None
) -> dict[Path, Outcome]:
    """Train or resume every run that is not over; the outcome of each by its folder.

    Runs that another process trains are waited for, and taken over if that process dies.

    Args:
        experiment: the variants, seeds and the folder.
        advance: called once for each run when it is over.

    Raises:
        PellucidError: a run cannot be trained, or `Interrupted`; all runs stay as they are.
    """
    data = DataHashes()
    outcomes: dict[Path, Outcome] = {}
    waiting = run_keys(experiment)
    n_runs = len(waiting)
    while waiting:
        busy_keys: list[RunKey] = []
        for key in waiting:
            path = key.variant.folder(experiment.out, key.seed)
            with claimed(path) as is_mine:
                if not is_mine:
                    busy_keys.append(key)
                    continue
                outcome, is_new = train_once(
                    key.variant.with_seed(key.seed), path, data, reward=experiment.reward
                )
            outcomes[path] = outcome
            advance(
                Advance(
                    key=key, number=len(outcomes), n_runs=n_runs, outcome=outcome, is_new=is_new
                )
            )
        if len(busy_keys) == len(waiting):
            time.sleep(PATIENCE)
        waiting = busy_keys
    return outcomes


@contextmanager
def claimed(path: Path) -> Generator[bool]:
    """Hold a run's claim while it is trained; False if another process has it.

    Args:
        path: the run's folder, which need not exist yet.
    """
    claims = path.parent / ".claims"
    claims.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(claims / f"{path.name}.lock", blocking=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def train_once(
    run: config.Run,
    path: Path,
    data: DataHashes,
    *,
    reward: str | None = None,
    observers: Sequence[Observer] = (),
    interrupts: Interrupts | None = None,
) -> tuple[Outcome, bool]:
    """Train a run to its end, unless it is there: the outcome, and whether it was trained now.

    A run that was stopped is resumed. A value that is not finite ends a run like its last update.

    Args:
        run: the config.
        path: the run's folder.
        data: compares the data of runs that are there with today's.
        reward: what judges answers, as for `pellucid.train`.
        observers: functions that are called with every event.
        interrupts: lets an observer stop the run.

    Raises:
        RunError: the run learnt from other data.
        PellucidError: as `pellucid.train`.
    """
    exists = RunFolder(path).config.is_file()
    if exists:
        data.check(run.text, RunFolder(path))
        outcome = outcome_of(path)
        if outcome.is_over:
            return outcome, False
    watchers = [watcher()]
    try:
        if exists:
            runs.resume(
                path,
                reward=reward,
                show=False,
                observers=observers,
                watchers=watchers,
                interrupts=interrupts,
            )
        else:
            runs.train_config(
                run,
                name=path.name,
                out=path,
                reward=reward,
                show=False,
                observers=observers,
                watchers=watchers,
                interrupts=interrupts,
            )
    except NonFiniteError:
        if outcome_of(path).state != "not finite":  # the weights it started from are broken
            raise
    return outcome_of(path), True
