"""An objective asked about held-out data, and what there is to say of examples.

Comes in: an objective, a model, batches. Goes out: numbers and lines. It does not know which
objective it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from pellucid.batches import Batch
from pellucid.data import Collation, Examples, in_turn
from pellucid.model import Transformer
from pellucid.objectives import Objective
from pellucid.tasks.task import TaskInputs, VerdictTracker
from pellucid.training import HeldOut, Precision, autocast, to_device


def judged(
    objective: Objective,
    model: Transformer,
    batches: Iterable[Batch],
    precision: Precision,
    *,
    unit: str,
) -> HeldOut:
    """The mean of each part of the loss over all terms of all batches."""
    sums: dict[str, torch.Tensor] = {}
    terms = 0
    for batch in batches:
        with torch.no_grad(), autocast(model.device, precision):
            loss = objective(model, to_device(batch, model.device))
        for name, value in loss.parts.items():
            # the batch's mean, weighed by its terms
            wide = value.detach().cpu().double() * batch.n_supervised
            sums[name] = sums[name] + wide if name in sums else wide
        terms += batch.n_supervised
    means = {name: float(value) / terms for name, value in sums.items()}
    loss_nats = means.pop("loss_nats")
    return HeldOut(loss_nats=loss_nats, over=terms, unit=unit, measures=means)


def judge_by(
    given: TaskInputs, objective: Objective, collation: Collation[Batch], unit: str
) -> VerdictTracker:
    """What asks the objective about examples, in batches of about the same length."""

    def judge(side: Examples, precision: Precision) -> HeldOut:
        batches = in_turn(side, collation, given.run.training.batch_size)
        return judged(objective, given.model, batches, precision, unit=unit)

    return judge


def some_of(examples: Examples, column: str, n_tokens: int) -> Examples:
    """As many examples as have about `n_tokens` in a column, from all over; at least one."""
    mean = float(np.mean(examples.columns[column].lengths))
    return examples.spread(max(1, int(n_tokens / mean)))
