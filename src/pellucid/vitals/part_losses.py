"""The losses of the parts of an update, until the update ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from pellucid.training import silently
from pellucid.vitals.async_metrics import AsyncMetrics, Column
from pellucid.vitals.record import Record
from pellucid.vitals.taps.first_batch import MAX_LOSSES, FirstBatch

Readings = list[tuple[Column, list[float]]]
#: Before the names of numbers that the loop passes by name.
_LOGGED = "logged: "


class Losses:
    """Losses from the loop take precedence over losses from the model's outputs."""

    def __init__(self) -> None:
        #: losses that the loop has passed so far
        self.n_added = 0
        self._losses: deque[Tensor] = deque(maxlen=MAX_LOSSES)

    def add(self, loss: Tensor | float) -> None:
        """Add a loss, without waiting for it; a loss of several numbers counts as their mean."""
        self.n_added += 1
        self._losses.append(as_mean(loss))

    def log(self, numbers: Mapping[str, Tensor | float], metrics: AsyncMetrics) -> None:
        """Record numbers that the loop passes by name.

        Args:
            numbers: The numbers; of a tensor, the mean counts.
            metrics: Takes them.
        """
        for name, value in numbers.items():
            metrics.record(_LOGGED + name, partial(as_mean, value))

    def record(self, metrics: AsyncMetrics, first_batch: FirstBatch | None) -> None:
        """Record the loss of the finished update, if it has one."""
        losses, adds_up = list(self._losses), False
        self._losses.clear()
        if first_batch is not None:
            if not losses:
                losses, adds_up = list(first_batch.losses), first_batch.adds_up
            first_batch.forget()
        if losses:
            metrics.record("loss", lambda: _combine(losses, adds_up=adds_up))


def as_mean(value: Tensor | float) -> Tensor:
    """A number as a tensor, without waiting for it; the mean of several numbers.

    Args:
        value: The number, or a tensor of any shape.
    """
    with silently():
        is_tensor = isinstance(value, Tensor)
        number = value.detach() if is_tensor else torch.tensor(float(value), device="cpu")
        return number.float().mean()


def take_logged(step: int, readings: Readings, record: Record) -> Readings:
    """Keep the numbers that the loop passed by name; the readings without them.

    Args:
        step: The update that they belong to.
        readings: All readings.
        record: Takes the numbers.
    """
    logged = [reading for reading in readings if reading[0].id.startswith(_LOGGED)]
    record.log(step, {column.id.removeprefix(_LOGGED): values[0] for column, values in logged})
    return [reading for reading in readings if reading not in logged] if logged else readings


def _combine(losses: Sequence[Tensor], *, adds_up: bool) -> Tensor:
    device = losses[0].device
    stacked = torch.stack([loss.to(device, torch.float32) for loss in losses])
    return stacked.sum() if adds_up else stacked.mean()
