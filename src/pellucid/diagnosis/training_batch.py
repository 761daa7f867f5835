"""Batches as a run's own training makes them, of whatever objective, for probes."""

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

#: Few enough that nothing has to be cut.
_ROWS = 4


class TrainingBatch(NamedTuple):
    """What a model is handed in training; `loss` is None where it is no plain cross-entropy."""

    examples: Examples
    loss: Callable[[Transformer, Tensor, Tensor], Any] | None


def build_training_batch(run: Run, paths: Sequence[str]) -> TrainingBatch:
    """The first batch of some rows, as the run's objective makes it, and its loss.

    Raises:
        PellucidError: the rows cannot be read, or there is no batch before the model has answered.
    """
    objective = run.config.objective
    if isinstance(objective, config.PolicyGradient):
        raise PellucidError(
            "a run that learns from rewards draws its answers itself, so that files of prompts "
            "cannot be checked: leave DATA out"
        )
    plain = _plain(objective)
    with task_on(replace(run, config=replace(run.config, objective=plain)), paths) as task:
        batch = task.batch(0, _ROWS)

        def loss(model: Transformer, ids: Tensor, labels: Tensor) -> Any:
            del ids, labels  # they are the batch's, or cut shorter
            return task.objective(model, batch)

        examples = _examples(batch)
    whole = examples.labels is not None and not isinstance(batch, PreferenceBatch)
    return TrainingBatch(examples, loss if whole else None)


def _plain(objective: config.Objective) -> config.Objective:
    """The objective without what is added to the cross-entropy on purpose."""
    added = {name: 0.0 for name in ("label_smoothing", "z_loss") if hasattr(objective, name)}
    return replace(objective, **added)


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
    raise PellucidError(f"no probe reads batches of the kind {type(batch).__name__}")
