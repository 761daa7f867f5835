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
    """How far a run is: all that changes besides tensors."""

    step: int = 0
    tokens: int = 0
    best_loss: float = math.inf
    best_saved_loss: float = math.inf

    def as_saved(self) -> dict[str, float | None]:
        """By name, as a checkpoint's state has it: a loss that was not measured yet is null."""
        return {name: None if n == math.inf else n for name, n in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """A loss over held-out data, and what else was measured: see `events.Evaluated`."""

    loss_nats: float
    over: int
    unit: str
    measures: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything a run is made of, built; what other rooms do for it comes as functions."""

    model: Transformer
    objective: Objective
    optimiser: Optimiser
    schedule: Schedule
    settings: config.Training
    plan: config.Plan
    seed: int
    #: So many rows from a place in the data on; `batch_of` says which an update learns from.
    batch: Callable[[int, int], Batch]
    #: How the model does on held-out data.
    evaluate: Callable[[], HeldOut]
    #: What the model makes of the fixed sentence after so many steps, where it makes anything.
    sample: Callable[[int], events.Sampled | None]
    #: Puts a checkpoint on the shelf: step, content, whether it is the best.
    save: Callable[[int, Checkpoint, bool], Path]
    #: What every checkpoint says besides: the config and the plan, as JSON.
    facts: Mapping[str, Any]
    #: Where the state goes when a value is not finite.
    aside: Path
    #: What the loss is a mean over: tokens, texts, pairs or prompts.
    unit: str = "tokens"
    #: How long saving a checkpoint will take, asked before any was saved.
    save_seconds: Callable[[Checkpoint], float] = lambda checkpoint: 0.0

    def rows_before(self, step: int) -> int:
        """How many rows the first `step` updates learn from: the place where the next begins."""
        return self._rows.before(step)

    def batch_of(self, step: int) -> Batch:
        """What the update that follows `step` updates learns from.

        Raises:
            PellucidError: a batch may be drawn and judged, which can be refused.
        """
        batch = self.batch(self.rows_before(step), self._rows.at(step))
        growth, length = self.settings.growth, self.model.context_length
        if not isinstance(growth, config.GrowingLength):
            return batch
        assert isinstance(batch, TokenBatch)  # rows of anything else were refused
        return batch.cut(stages(growth, length, self.plan.grows_over).at(step))

    @property
    def _rows(self) -> Stages:
        growth = self.settings.growth
        grows = growth if isinstance(growth, config.GrowingBatch) else None
        return stages(grows, self.settings.batch_size, self.plan.grows_over)


#: Looks into a job while it runs, and tells all observers what it sees through the second argument.
#: The observer that it returns gets the run's events until the run ends.
Watcher = Callable[[Job, events.Observer], AbstractContextManager[events.Observer]]
