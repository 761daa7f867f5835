"""Saving checkpoints while the training goes on, in a thread; and the state of one that failed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from pellucid.checkpoints import Checkpoint, Shares
from pellucid.errors import NonFiniteError
from pellucid.training import events
from pellucid.training.job import Job, Progress, save_together
from pellucid.training.non_finite import refusal, set_aside
from pellucid.training.randomness import generator_states
from pellucid.training.stepper import Stepper


def checkpoint_of(
    job: Job, stepper: Stepper, progress: Progress, clock: Mapping[str, Any]
) -> Checkpoint:
    """The state of a training between two updates.

    Args:
        job: everything that the run is made of.
        stepper: makes its updates.
        progress: how far the run is.
        clock: what its clock saves.
    """
    trained, (tensors, generators) = stepper.state(), generator_states()
    return Checkpoint(
        model=trained.model,
        optimiser=trained.optimiser,
        random=tensors,
        state={
            "progress": progress.as_saved(),
            "position": job.rows_before(progress.step),
            "generators": generators,
            **clock,
            **job.facts,
        },
        shares=None if trained.places is None else Shares(trained.places, job.world.size),
    )


def save_non_finite(job: Job, stepper: Stepper, step: int, emit: events.Observer) -> NonFiniteError:
    """Name the culprit of the update that follows `step` updates, and set the state aside.

    Args:
        job: everything that the run is made of.
        stepper: has made the updates so far.
        step: how many they are.
        emit: gets the event that says where the state is.

    Returns:
        The error with which the run ends.
    """
    culprit = stepper.find_culprit(lambda: job.own_batch_of(step), step=step)
    batch, trained = job.batch_of(step), stepper.state()
    trained = trained if trained.places is None else stepper.whole_state()
    tensors = {
        "model": trained.model,
        "optimiser": trained.optimiser,
        "batch": batch.named_tensors(),
    }
    folder = job.non_finite_folder / f"step-{step}"
    target = job.world.led(set_aside)(folder, tensors, step, culprit)
    emit(
        events.StoppedNonFinite(
            step=step, what=culprit.kind, where=culprit.place, aside=str(target)
        )
    )
    return NonFiniteError(refusal(step, culprit, target))


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that is on the disk, and the seconds that writing it took."""

    step: int
    path: str
    best: bool
    seconds: float


class Saver:
    """Writes one checkpoint at a time, the first rank in a thread; shares of many at once.

    Args:
        job: saves a checkpoint.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pellucid-checkpoint")
        self._future: Future[Saved] | None = None
        self._is_writing = False

    def start(self, step: int, checkpoint: Checkpoint, *, best: bool) -> None:
        """Copy a checkpoint, and begin to write the copy; the one before it has to be collected.

        Args:
            step: how many updates are done.
            checkpoint: the state; it may change once this returns.
            best: whether it has the best held-out loss so far.
        """
        self._is_writing = True
        if checkpoint.shares is not None:  # every rank writes its own, and they speak to each other
            self._future = Future()
            self._future.set_result(self._save_together(step, checkpoint, best))
        elif self._job.world.rank == 0:
            snapshot = replace(
                checkpoint,
                model=_copied(checkpoint.model),
                optimiser=_copied(checkpoint.optimiser),
            )
            self._future = self._thread.submit(self._save, step, snapshot, best)

    def collect(self, *, wait: bool) -> Saved | None:
        """The checkpoint that was written since the last call; None if there is none.

        Args:
            wait: wait for a checkpoint that is being written.

        Raises:
            PellucidError: it could not be written.
        """
        if not self._is_writing:
            return None
        try:
            saved = self._job.world.led(self._result)(wait)
        except BaseException:
            self._is_writing = False
            raise
        self._is_writing = saved is None
        return saved

    def close(self) -> None:
        """Wait until nothing is written any more."""
        self._thread.shutdown()

    def _result(self, wait: bool) -> Saved | None:
        assert self._future is not None
        return self._future.result() if wait or self._future.done() else None

    def _save(self, step: int, snapshot: Checkpoint, best: bool) -> Saved:
        started = time.perf_counter()
        path: Path = self._job.save(step, snapshot, best)
        return Saved(step, str(path), best, time.perf_counter() - started)

    def _save_together(self, step: int, checkpoint: Checkpoint, best: bool) -> Saved:
        started = time.perf_counter()
        path = save_together(self._job, step, checkpoint, best=best)
        return Saved(step, str(path), best, time.perf_counter() - started)


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
