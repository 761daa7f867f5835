"""Everything that the loop needs of a run, and how far the run is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pellucid import config
from pellucid.batches import Batch, TokenBatch
from pellucid.checkpoints import Checkpoint, write_own
from pellucid.model import Transformer
from pellucid.objectives import Objective
from pellucid.optim import Optimiser
from pellucid.parallel import World
from pellucid.training import events
from pellucid.training.averaging import WeightAverage
from pellucid.training.growth import Stages, stages
from pellucid.training.timetable import Clock, Replan, Timetable

#: A step's learning-rate factor, from the number of steps done: those of the first plan.
Schedule = Callable[[float], float]


_NUMBERS = ("step", "tokens", "best_loss", "best_saved_loss", "stale_evaluations")


@dataclass(slots=True)
class Progress:
    """How far a run is: everything that changes, except tensors.

    Attributes:
        step: updates that are done.
        tokens: terms that the run has learnt from.
        best_loss: the lowest held-out loss, in nats.
        best_saved_loss: the lowest one with a checkpoint.
        stale_evaluations: evaluations since the best one.
        clock: the time of a run by minutes; None if it starts, or if its length is fixed.
    """

    step: int = 0
    tokens: int = 0
    best_loss: float = math.inf
    best_saved_loss: float = math.inf
    stale_evaluations: int = 0
    clock: Clock | None = None

    def take_loss(self, loss: float) -> bool:
        """Count an evaluation; whether its loss is the best so far."""
        best = loss < self.best_loss
        self.best_loss = loss if best else self.best_loss
        self.stale_evaluations = 0 if best else self.stale_evaluations + 1
        return best

    def as_saved(self) -> dict[str, float | None]:
        """The numbers by name, for a checkpoint; a loss that was not measured yet is null."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return {name: None if n == math.inf else n for name, n in numbers.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """A loss over held-out data, and other measures: see `events.Evaluated`.

    Attributes:
        loss_nats: the mean loss, in nats for each term.
        over: how many terms it is a mean of.
        unit: the kind of term.
        measures: other measures, by name.
        standard_error: of the loss; None if it is unknown.
    """

    loss_nats: float
    over: int
    unit: str
    measures: Mapping[str, float]
    standard_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything that a run is made of; the work of other rooms comes as functions.

    Attributes:
        model: what is trained.
        objective: the loss.
        optimiser: what changes the weights.
        schedule: the factor of the learning rate at each update.
        settings: the table `training` of the config.
        plan: what was decided about this machine.
        seed: of data, dropout and weights.
        batch: makes a batch from a place in the data and a number of rows; `batch_of` knows both.
        rows_per_epoch: rows of the training data.
        own_rows: some rows of a batch, read alone, and the terms that all its rows count; None:
            each rank makes the whole batch.
        evaluate: evaluates the model on held-out data.
        sample: continues the fixed sentence after so many steps, if the model can.
        save: saves a checkpoint: its step, its content, and whether it is the best.
        facts: goes into every checkpoint: the config and the plan, as JSON.
        non_finite_folder: the folder for the state when a value is not finite.
        unit: the terms that the loss is a mean over: tokens, texts, pairs or prompts.
        save_seconds: estimates the seconds of saving a checkpoint, before the first one.
        world: the processes that train together.
        timetable: the new lengths of a run by minutes.
        record_replan: puts a new length on the disk, before it takes effect.
        row_multiple: the last update of a run by minutes may learn from any multiple of so many
            rows; None: only from a whole batch.
        average: the moving average of the weights, if the run keeps one.
    """

    model: Transformer
    objective: Objective
    optimiser: Optimiser
    schedule: Schedule
    settings: config.Training
    plan: config.Plan
    seed: int
    batch: Callable[[int, int], Batch]
    evaluate: Callable[[], HeldOut]
    sample: Callable[[int], events.Sampled | None]
    save: Callable[[int, Checkpoint, bool], Path]
    facts: Mapping[str, Any]
    non_finite_folder: Path
    unit: str = "tokens"
    save_seconds: Callable[[Checkpoint], float] = lambda checkpoint: 0.0
    world: World = field(default_factory=World)
    timetable: Timetable = field(default_factory=Timetable)
    record_replan: Callable[[Replan], None] = lambda replan: None
    row_multiple: int | None = None
    average: WeightAverage | None = None
    rows_per_epoch: int = 1
    own_rows: Callable[[int, int, slice], tuple[Batch, int]] | None = None
    _latest: dict[tuple[int, int], Batch] = field(default_factory=dict, init=False)

    @property
    def total_steps(self) -> int:
        """How many updates the run has; in a run by minutes this may change."""
        return self.timetable.total(self.plan.total_steps)

    def with_average(self) -> AbstractContextManager[None]:
        """Within it, the model has the moving average of its weights, if the run keeps one."""
        return nullcontext() if self.average is None else self.average.swapped()

    def has_lost_patience(self, stale_evaluations: int) -> bool:
        """Whether the run ends early after so many evaluations without a new best loss."""
        patience = self.settings.patience
        return patience is not None and stale_evaluations >= patience

    def learning_rate_factor(self, step: int) -> float:
        """The share of the peak learning rate of the update that follows `step` updates."""
        return self.schedule(self.timetable.moment(step, self.plan.grows_over))

    def has_dropout(self, step: int) -> bool:
        """Whether the update that follows `step` updates has dropout, if the model has any."""
        first_row = self.settings.dropout_from_epoch * self.rows_per_epoch
        return self.rows_before(step) >= first_row

    def rows_before(self, step: int, timetable: Timetable | None = None) -> int:
        """How many rows the first `step` updates learn from; `timetable` may try out another."""
        times, planned_steps = timetable or self.timetable, self.plan.grows_over
        rows = self._rows.before(
            step, lambda start: times.updates_before(start, planned_steps, step)
        )
        return rows - sum(
            self.whole_rows(number - 1, times) - short
            for number, short in times.short_updates().items()
            if number <= step
        )

    def whole_rows(self, step: int, timetable: Timetable | None = None) -> int:
        """The rows of a whole batch after `step` updates; `timetable` may try out another."""
        moment = (timetable or self.timetable).furthest(step, self.plan.grows_over)
        return self._rows.size_after(moment)

    def batch_of(self, step: int) -> Batch:
        """The batch of the update that follows `step` updates, of all ranks.

        Raises:
            PellucidError: a reward failed.
        """
        return self._cut(self._whole_batch(step), step)

    @property
    def latest_batch(self) -> Batch | None:
        """The latest whole batch that this rank made; None if it makes its own rows alone."""
        return next(iter(self._latest.values()), None)

    def own_batch_of(self, step: int) -> Batch:
        """This rank's rows of `batch_of`; where that is possible, no others are read.

        Raises:
            PellucidError: a reward failed, or the data cannot be read.
        """
        n_rows, n_ranks = self._count_rows(step), self.world.n_data
        if n_ranks == 1:
            return self.batch_of(step)
        first = self.world.data_rank * n_rows // n_ranks
        rows = slice(first, first + n_rows // n_ranks)
        if self.own_rows is None:
            batch = self._whole_batch(step).part(rows)
        else:
            part, n_supervised = self.own_rows(self.rows_before(step), n_rows, rows)
            batch = replace(part, n_supervised=n_supervised)
        return self._cut(batch, step)

    def _whole_batch(self, step: int) -> Batch:
        """The latest is kept: a policy samples its answers, and a reward judges them, once."""
        place = self.rows_before(step), self._count_rows(step)
        if place not in self._latest:
            batch = self.batch(*place)
            self._latest.clear()
            self._latest[place] = batch
        return self._latest[place]

    def _count_rows(self, step: int) -> int:
        return self.timetable.short_updates().get(step + 1) or self.whole_rows(step)

    def _cut(self, batch: Batch, step: int) -> Batch:
        """The batch in shorter rows, if they grow."""
        growth = self.settings.growth
        if not isinstance(growth, config.GrowingLength):
            return batch
        assert isinstance(batch, TokenBatch)  # rows of anything else were refused
        moment = self.timetable.furthest(step, self.plan.grows_over)
        return batch.cut(
            stages(growth, self.model.context_length, self.plan.grows_over).size_after(moment)
        )

    @property
    def _rows(self) -> Stages:
        growth = self.settings.growth
        grows = growth if isinstance(growth, config.GrowingBatch) else None
        return stages(grows, self.settings.batch_size, self.plan.grows_over)


def save_together(job: Job, step: int, checkpoint: Checkpoint, *, best: bool) -> Path:
    """Have rank 0 save a checkpoint; if its tensors are shares, every rank writes its own.

    Args:
        job: has the ranks, and saves.
        step: how many updates are done.
        checkpoint: what this rank has of it.
        best: whether it is the best.

    Returns:
        The checkpoint's folder.
    """
    shares = checkpoint.shares
    if shares is None:
        return job.world.led(job.save)(step, checkpoint, best)

    def save(write_all: Callable[[Path], list[dict[str, str]]]) -> Path:
        def write(folder: Path) -> dict[str, str]:
            return {name: value for sums in write_all(folder) for name, value in sums.items()}

        return job.save(step, replace(checkpoint, shares=shares._replace(write=write)), best)

    return job.world.act_together(
        save, lambda folder: write_own(folder, checkpoint, job.world.rank)
    )


#: Looks into a job while it runs, and tells all observers what it sees through the second argument.
#: The observer that it returns gets the run's events until the run ends.
Watcher = Callable[[Job, events.Observer], AbstractContextManager[events.Observer]]
