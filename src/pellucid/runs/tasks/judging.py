"""An objective asked about held-out data: its parts as means over all of them.

Comes in: an objective, a model, batches. Goes out: numbers by name. It does not know which
objective it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from pellucid.batches import Batch
from pellucid.model import Transformer
from pellucid.objectives import Objective
from pellucid.training import Precision, autocast, to_device


def judged(
    objective: Objective, model: Transformer, batches: Iterable[Batch], precision: Precision
) -> tuple[dict[str, float], int]:
    """The mean of each part over all terms of all batches, and how many terms these are."""
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
    return {name: float(value) / terms for name, value in sums.items()}, terms
