"""The losses of the parts of an update, until the update ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from pellucid.training import silently
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.taps.first_batch import MAX_LOSSES, FirstBatch


class Losses:
    """Losses from the loop take precedence over losses from the model's outputs."""

    def __init__(self) -> None:
        #: losses that the loop has passed so far
        self.n_added = 0
        self._losses: deque[Tensor] = deque(maxlen=MAX_LOSSES)

    def add(self, loss: Tensor | float) -> None:
        """Add a loss, without waiting for it; a loss of several numbers counts as their mean."""
        self.n_added += 1
        with silently():
            is_tensor = isinstance(loss, Tensor)
            value = loss.detach() if is_tensor else torch.tensor(float(loss), device="cpu")
            self._losses.append(value.float().mean())

    def record(self, metrics: AsyncMetrics, first_batch: FirstBatch | None) -> None:
        """Record the loss of the finished update, if it has one."""
        losses, adds_up = list(self._losses), False
        self._losses.clear()
        if first_batch is not None:
            if not losses:
                losses, adds_up = list(first_batch.losses), first_batch.adds_up
            first_batch.losses.clear()
        if losses:
            metrics.record("loss", lambda: _combine(losses, adds_up=adds_up))


def _combine(losses: Sequence[Tensor], *, adds_up: bool) -> Tensor:
    device = losses[0].device
    stacked = torch.stack([loss.to(device, torch.float32) for loss in losses])
    return stacked.sum() if adds_up else stacked.mean()
