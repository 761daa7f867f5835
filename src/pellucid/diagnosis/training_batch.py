"""The batch that a run's own training would make, for probes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from pellucid import config
from pellucid.batches import Batch, LabelBatch, PairBatch, PreferenceBatch, TokenBatch
from pellucid.diagnosis.batches import Examples
from pellucid.errors import PellucidError
from pellucid.model import Transformer
from pellucid.runs import Run, task_on

#: So few rows that `check` does not cut the batch.
_ROWS = 4


class TrainingBatch(NamedTuple):
    """A batch of the training; `loss` is None if it is not a plain cross-entropy."""

    examples: Examples
    loss: Callable[[Transformer, Tensor, Tensor], Any] | None


def build_training_batch(run: Run, paths: Sequence[str]) -> TrainingBatch:
    """The first batch of the rows, in the form of the run's objective, and its loss.

    Raises:
        PellucidError: the rows cannot be read, or the model has to write the answers first.
    """
    objective = run.config.objective
    if isinstance(objective, config.PolicyGradient):
        raise PellucidError(
            "a run that learns from rewards writes its answers itself, so pellucid cannot check a "
            "file of prompts: leave DATA out"
        )
    # the loss without the terms that are added to the cross-entropy
    added = {name: 0.0 for name in ("label_smoothing", "z_loss") if hasattr(objective, name)}
    plain = replace(objective, **added)
    with task_on(replace(run, config=replace(run.config, objective=plain)), paths) as task:
        batch = task.batch(0, _ROWS)

        def loss(model: Transformer, ids: Tensor, labels: Tensor) -> Any:
            del ids, labels  # the objective takes the whole batch
            return task.objective(model, batch)

        examples = _examples(batch)
    is_cross_entropy = examples.labels is not None and not isinstance(batch, PreferenceBatch)
    return TrainingBatch(examples, loss if is_cross_entropy else None)


def _examples(batch: Batch) -> Examples:
    if isinstance(batch, PreferenceBatch):
        batch = batch.chosen
    if isinstance(batch, LabelBatch):
        return Examples((batch.ids,), padding=batch.padding)
    if isinstance(batch, PairBatch):
        return Examples(
            (batch.ids,),
            batch.targets,
            source=batch.source,
            source_padding=batch.source_padding,
        )
    if isinstance(batch, TokenBatch):
        return Examples((batch.ids,), batch.targets, batch.padding)
    raise PellucidError(f"no probe supports batches of the kind {type(batch).__name__}")
