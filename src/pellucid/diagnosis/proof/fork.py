"""A fork of a run: some updates from one of its states, with its data, perhaps another config.

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

#: Held-out tokens that a fork is judged by, at most.
_HELD_OUT = 40_000
_NEVER = 10**15

#: Called after each update of a fork, with how many of its updates are done.
Ticks = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The run that forks are of: its folder, its config and plan; its reward, where it has one."""

    folder: RunFolder
    run: config.Run
    plan: config.Plan
    reward: Reward | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """What came of some updates.

    `loss` is that of held-out data after the last update, in nats a `unit`; None where a value was
    not finite, and `stopped` says what and where. `signs` are the last vital signs, by their ids.
    """

    seed: int
    start: int
    steps: int
    loss: float | None
    unit: str
    signs: Mapping[str, Reading]
    stopped: str
    seconds: float

    @property
    def sick(self) -> frozenset[str]:
        """The signs whose last word was sick."""
        return frozenset(id for id, sign in self.signs.items() if sign.word == "sick")


@dataclass(slots=True)
class _Record:
    """An observer that keeps what is told of a fork at its end."""

    tick: Ticks
    start: int
    signs: dict[str, Reading] = field(default_factory=dict[str, Reading])
    stopped: str = ""

    def __call__(self, event: Event) -> None:
        match event:
            case events.Vitals():
                self.signs = {
                    id: Reading(step, value, word, where)
                    for id, _, value, word, step, where in event.signs
                }
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
    tick: Ticks = lambda done: None,
) -> Fork:
    """Run `steps` updates of `run` from a checkpoint of `origin`, or from first weights.

    The seed of `run` decides the order of the data and the dropout, and first weights where they
    are drawn. The place in the schedule is that of the checkpoint. Nothing is kept on disk.

    Raises:
        PellucidError: the data are damaged, or do not go with the config.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="pellucid-fork-") as scratch:
        into = RunFolder(Path(scratch))
        job = rebuild(
            origin.folder, _quiet(run), _plan(origin, run), reward=origin.reward, into=into
        )
        progress = Progress() if checkpoint is None else restore(job, _copied(checkpoint))
        _bring_windows(origin.folder, into)
        record = _Record(tick, progress.step)
        end = min(progress.step + steps, origin.plan.total_steps)
        loss = _run(_cut(job, progress, end, into), progress, record, into)
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


def _run(job: Job, progress: Progress, record: _Record, into: RunFolder) -> float | None:
    """Run the loop under watch; the last held-out loss, None where the loop was stopped."""
    held_out_losses: list[float] = []

    def keep(event: Event) -> None:
        if isinstance(event, events.Evaluated):
            held_out_losses.append(event.loss_nats)

    # whoever watches finds its windows where a run has them
    begun = Resumed(
        step=progress.step,
        total_steps=job.plan.total_steps,
        checkpoint="",
        folder=str(into.path),
    )
    with watcher(max_overhead=None)(job, record) as watch:
        watch(begun)
        try:
            # not entered: Ctrl-C ends a fork at once, for there is nothing to save
            run_loop(job, progress, [record, keep, watch], Interrupts())
        except NonFiniteError:
            return None
    return held_out_losses[-1]


def _quiet(run: config.Run) -> config.Run:
    """The run with intervals that are those of a fork: judged once, at its end, and never saved."""
    training = run.training
    quiet = replace(
        training,
        evaluate_every=_NEVER,
        checkpoint_every=_NEVER,
        log_every=min(training.log_every, 10),
        evaluate_tokens=min(training.evaluate_tokens, _HELD_OUT),
    )
    return replace(run, training=quiet)


def _plan(origin: Origin, run: config.Run) -> config.Plan:
    """The run's own plan; not compiled, which takes longer than a fork."""
    plan = replace(origin.plan, compile=False)
    if run.training.precision == origin.run.training.precision:
        return plan
    precision = find_precision(run.training.precision, torch.device(plan.device))
    return replace(plan, precision=precision)


def _cut(job: Job, progress: Progress, end: int, into: RunFolder) -> Job:
    """The job up to update `end`; schedule and growth are still those of the whole run."""
    nothing = HeldOut(loss_nats=math.nan, over=0, unit=job.unit, measures={})
    return replace(
        job,
        plan=replace(job.plan, total_steps=end, growth_steps=job.plan.grows_over),
        # the loop asks before a run's first update too
        evaluate=lambda: job.evaluate() if progress.step == end else nothing,
        sample=_silent,
        save=_nowhere(into),
        non_finite_folder=into.aside,
    )


def _silent(step: int) -> None:
    """A fork shows nothing of what it would say."""


def _nowhere(into: RunFolder) -> Callable[[int, Checkpoint, bool], Path]:
    return lambda step, checkpoint, best: into.path


def _bring_windows(source: RunFolder, into: RunFolder) -> None:
    """The windows that words depend on, where the run kept them."""
    windows = source.path / "vitals.json"
    if windows.is_file():
        shutil.copy(windows, into.path)


def _copied(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with a memory of its own, which the optimiser will write over."""
    memory = {name: tensor.clone() for name, tensor in checkpoint.optimiser.items()}
    return replace(checkpoint, optimiser=memory)
