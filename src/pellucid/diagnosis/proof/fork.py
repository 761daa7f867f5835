"""A fork of a run: some updates from one of its states, on its data, perhaps with another config.

A fork never writes to the run's folder.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from pellucid import config
from pellucid.checkpoints import Checkpoint
from pellucid.diagnosis.history.history import Reading
from pellucid.errors import NonFiniteError
from pellucid.runs.rebuild import rebuild, restore
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.machine import find_precision
from pellucid.tasks import Reward
from pellucid.training import (
    Event,
    HeldOut,
    Interrupts,
    Job,
    Progress,
    Resumed,
    events,
)
from pellucid.training import train as run_loop
from pellucid.vitals import watcher

#: A fork is evaluated on at most so many held-out tokens.
_HELD_OUT = 40_000
#: An interval that no run reaches.
_LONGEST_INTERVAL = 10**15

#: Called after each update of a fork, with the number of its updates so far.
Ticks = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The run to fork: its folder, its config and plan, and its reward if it has one."""

    folder: RunFolder
    run: config.Run
    plan: config.Plan
    reward: Reward | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """The result of a fork.

    `loss` is its `measure` after the last update: for runs the held-out loss, in nats per `unit`.
    It is None if a value was not finite; `stopped` then names the value and its place. `signs` are
    the last vital signs.
    """

    seed: int
    start: int
    steps: int
    loss: float | None
    unit: str
    signs: Mapping[str, Reading]
    stopped: str
    seconds: float
    measure: str = "held-out loss"

    @property
    def sick(self) -> frozenset[str]:
        """The signs that were sick at last."""
        return frozenset(id for id, sign in self.signs.items() if sign.word == "sick")


@dataclass(slots=True)
class _Record:
    """An observer that keeps a fork's last signs and loss, and the reason why it stopped."""

    tick: Ticks
    start: int
    loss: float | None = None
    signs: dict[str, Reading] = field(default_factory=dict[str, Reading])
    stopped: str = ""

    def __call__(self, event: Event) -> None:
        match event:
            case events.Vitals():
                self.signs = {
                    id: Reading(step, value, word, place)
                    for id, _, value, word, step, place in event.signs
                }
            case events.Evaluated():
                self.loss = event.loss_nats
            case events.StepFinished():
                self.tick(event.step - self.start)
            case events.StoppedNonFinite():
                self.stopped = f"{event.what} of {event.where} at update {event.step + 1}"
            case _:
                pass


def run_fork(
    origin: Origin,
    run: config.Run,
    checkpoint: Checkpoint | None,
    *,
    steps: int,
    tick: Ticks = lambda n_done: None,
) -> Fork:
    """Run a fork of `origin`, and keep nothing of it on disk.

    Args:
        origin: the run to fork.
        run: its config, perhaps changed. The seed decides the order of the data, the dropout, and
            first weights that are drawn.
        checkpoint: the checkpoint to continue from, at its place in the schedule; None for first
            weights.
        steps: the number of updates.
        tick: called after each update.

    Raises:
        PellucidError: the data are damaged, or do not fit the config.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="pellucid-fork-") as scratch:
        folder = RunFolder(Path(scratch))
        job = rebuild(
            origin.folder,
            _evaluate_once(run),
            _plan(origin, run),
            reward=origin.reward,
            target=folder,
        )
        progress = Progress() if checkpoint is None else restore(job, _copied(checkpoint))
        windows = origin.folder.path / "vitals.json"  # the words of signs depend on these windows
        if windows.is_file():
            shutil.copy(windows, folder.path)
        record = _Record(tick, progress.step)
        end = min(progress.step + steps, job.total_steps)
        _run(_cut(job, progress, end, folder), progress, record, folder)
    loss = record.loss
    return Fork(
        seed=run.seed,
        start=record.start,
        steps=end - record.start,
        loss=loss if loss is not None and math.isfinite(loss) else None,
        unit=job.unit,
        signs=record.signs,
        stopped=record.stopped,
        seconds=time.perf_counter() - started,
    )


def _run(job: Job, progress: Progress, record: _Record, folder: RunFolder) -> None:
    """Run the loop under watch; the record has no loss if a value was not finite."""
    # the watch reads its windows from the folder in this event
    resumed = Resumed(
        step=progress.step,
        total_steps=job.total_steps,
        checkpoint="",
        folder=str(folder.path),
    )
    with watcher(max_overhead=None)(job, record) as watch:
        watch(resumed)
        try:
            # Interrupts without `with`: Ctrl-C ends a fork at once, as it saves nothing
            run_loop(job, progress, [record, watch], Interrupts())
        except NonFiniteError:
            record.loss = None


def _evaluate_once(run: config.Run) -> config.Run:
    """The run with one evaluation at the end, and without checkpoints."""
    training = replace(
        run.training,
        evaluate_every=_LONGEST_INTERVAL,
        checkpoint_every=_LONGEST_INTERVAL,
        log_every=min(run.training.log_every, 10),
        evaluate_tokens=min(run.training.evaluate_tokens, _HELD_OUT),
    )
    return replace(run, training=training)


def _plan(origin: Origin, run: config.Run) -> config.Plan:
    """The run's own plan without compilation, which takes longer than a fork."""
    plan = replace(origin.plan, compile=False)
    if run.training.precision == origin.run.training.precision:
        return plan
    precision = find_precision(run.training.precision, torch.device(plan.device))
    return replace(plan, precision=precision)


def _cut(job: Job, progress: Progress, end: int, folder: RunFolder) -> Job:
    """The job up to update `end`, with the schedule and the growth of the whole run."""
    not_evaluated = HeldOut(loss_nats=math.nan, over=0, unit=job.unit, measures={})

    def sample(step: int) -> None:
        """A fork shows no samples."""

    def save(step: int, checkpoint: Checkpoint, best: bool) -> Path:
        """A fork saves nothing."""
        return folder.path

    return replace(
        job,
        plan=replace(job.plan, total_steps=end, growth_steps=job.plan.grows_over, replanned=False),
        timetable=job.timetable.ending_after(end),
        # the loop also evaluates before a run's first update
        evaluate=lambda: job.evaluate() if progress.step == end else not_evaluated,
        sample=sample,
        save=save,
        non_finite_folder=folder.non_finite,
    )


def _copied(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with a copy of the optimiser's state, because the optimiser overwrites it."""
    state = {name: tensor.clone() for name, tensor in checkpoint.optimiser.items()}
    return replace(checkpoint, optimiser=state)
