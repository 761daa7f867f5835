"""An objective asked about held-out data, and what there is to say of examples.

Comes in: an objective, a model, batches. Goes out: numbers and lines. It does not know which
objective it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from pellucid.batches import Batch
from pellucid.examples import Examples
from pellucid.model import Transformer
from pellucid.objectives import Objective
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


def some_of(examples: Examples, column: str, n_tokens: int) -> Examples:
    """As many examples from the first on as have `n_tokens` in a column; at least one."""
    ends = np.cumsum(examples.columns[column].lengths)
    return examples.first(max(1, int(np.searchsorted(ends, n_tokens, side="right"))))
