"""Everything that the loop needs of a run, and how far the run is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid import config
from pellucid.batches import Batch, TokenBatch
from pellucid.checkpoints import Checkpoint
from pellucid.model import Transformer
from pellucid.objectives import Objective
from pellucid.optim import Optimiser
from pellucid.training import events
from pellucid.training.growth import Stages, stages

#: A step's learning-rate factor, from the number of steps done.
Schedule = Callable[[int], float]


@dataclass(slots=True)
class Progress:
    """How far a run is: everything that changes, except tensors."""

    step: int = 0
    tokens: int = 0
    best_loss: float = math.inf
    best_saved_loss: float = math.inf

    def as_saved(self) -> dict[str, float | None]:
        """The numbers by name, for a checkpoint; a loss that was not measured yet is null."""
        return {name: None if n == math.inf else n for name, n in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """A loss over held-out data, and other measures: see `events.Evaluated`."""

    loss_nats: float
    over: int
    unit: str
    measures: Mapping[str, float]
    standard_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything that a run is made of; the work of other rooms comes as functions."""

    model: Transformer
    objective: Objective
    optimiser: Optimiser
    schedule: Schedule
    settings: config.Training
    plan: config.Plan
    seed: int
    #: Makes a batch from a place in the data and a number of rows; `batch_of` knows both.
    batch: Callable[[int, int], Batch]
    #: Evaluates the model on held-out data.
    evaluate: Callable[[], HeldOut]
    #: Continues the fixed sentence after so many steps, if the model can.
    sample: Callable[[int], events.Sampled | None]
    #: Saves a checkpoint: its step, its content, and whether it is the best.
    save: Callable[[int, Checkpoint, bool], Path]
    #: Goes into every checkpoint: the config and the plan, as JSON.
    facts: Mapping[str, Any]
    #: The folder for the state when a value is not finite.
    non_finite_folder: Path
    #: The terms that the loss is a mean over: tokens, texts, pairs or prompts.
    unit: str = "tokens"
    #: Estimates the seconds of saving a checkpoint, before the first one.
    save_seconds: Callable[[Checkpoint], float] = lambda checkpoint: 0.0

    def rows_before(self, step: int) -> int:
        """How many rows the first `step` updates learn from."""
        return self._rows.before(step)

    def batch_of(self, step: int) -> Batch:
        """The batch of the update that follows `step` updates.

        Raises:
            PellucidError: a reward failed.
        """
        batch = self.batch(self.rows_before(step), self._rows.size_after(step))
        growth, length = self.settings.growth, self.model.context_length
        if not isinstance(growth, config.GrowingLength):
            return batch
        assert isinstance(batch, TokenBatch)  # rows of anything else were refused
        return batch.cut(stages(growth, length, self.plan.grows_over).size_after(step))

    @property
    def _rows(self) -> Stages:
        growth = self.settings.growth
        grows = growth if isinstance(growth, config.GrowingBatch) else None
        return stages(grows, self.settings.batch_size, self.plan.grows_over)


#: Looks into a job while it runs, and tells all observers what it sees through the second argument.
#: The observer that it returns gets the run's events until the run ends.
Watcher = Callable[[Job, events.Observer], AbstractContextManager[events.Observer]]
