"""The losses of the parts of an update, until the update ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from pellucid.training import silently
from pellucid.vitals.async_metrics import AsyncMetrics, Column
from pellucid.vitals.call.reward_order import REWARDS
from pellucid.vitals.record import Record
from pellucid.vitals.taps.first_batch import MAX_LOSSES, FirstBatch

Readings = list[tuple[Column, list[float]]]
#: Before the names of numbers that the loop passes by name.
_LOGGED = "logged: "
LOSS = "loss"


@dataclass
class _Ended:
    """An update that ended, and its losses so far."""

    step: int
    losses: list[Tensor | float]
    #: whether the loop passed them
    is_passed: bool
    #: whether they add up to the loss of the update, instead of being means
    adds_up: bool = False
    #: whether the model's outputs were seen in it
    has_run: bool = False

    def add(self, loss: Tensor | float) -> None:
        """Add a loss that the loop passed; it replaces those in the model's outputs."""
        if not self.is_passed:
            self.losses, self.is_passed, self.adds_up = [], True, False
        if len(self.losses) < MAX_LOSSES:
            self.losses.append(loss)


class Losses:
    """Losses from the loop take precedence over losses from the model's outputs."""

    def __init__(self) -> None:
        #: losses that the loop has passed so far
        self.n_added = 0
        self._losses: deque[Tensor | float] = deque(maxlen=MAX_LOSSES)
        #: the last update that ended: a loop may pass its loss only after the optimiser's step
        self._ended: _Ended | None = None
        #: the loss of each update that is not taken yet; a number, unless it is on a device
        self._by_step: list[tuple[int, Tensor | float]] = []

    def add(self, loss: Tensor | float, first_batch: FirstBatch | None = None) -> None:
        """Add a loss, without waiting for it; a loss of several numbers counts as their mean.

        Args:
            loss: The loss: of the last update, if the model ran in that one and has not run
                since.
            first_batch: Knows whether the model has run since the last update.
        """
        self.n_added += 1
        value = _to_host(loss)
        number = as_mean(value) if isinstance(value, Tensor) else float(value)
        has_run = first_batch is None or first_batch.has_run
        if has_run or self._ended is None or not self._ended.has_run:
            self._losses.append(number)
        else:
            self._ended.add(number)

    def log(self, numbers: Mapping[str, Tensor | float], metrics: AsyncMetrics) -> None:
        """Record numbers that the loop passes by name, and how far apart rewards are.

        Args:
            numbers: The numbers; of a tensor, the mean counts.
            metrics: Takes them.
        """
        for name, value in numbers.items():
            metrics.record(_LOGGED + name, partial(as_mean, value))
            if name in REWARDS and isinstance(value, Tensor) and value.numel() > 1:
                metrics.record(f"{_LOGGED}{name}/deviation", partial(_deviation, value))

    def end_update(
        self, step: int, first_batch: FirstBatch | None, *, is_last: bool = False
    ) -> None:
        """Take the losses of a finished update, until the next one ends.

        Args:
            step: The update.
            first_batch: Has the losses in the model's outputs.
            is_last: Whether no more losses of it come.
        """
        self.close_update()
        ended = _Ended(step, list(self._losses), is_passed=bool(self._losses))
        self._losses.clear()
        if first_batch is not None:
            # those in the outputs are read only for a loop that passes none
            first_batch.reads_losses = not ended.is_passed
            ended.has_run = first_batch.has_run
            if not ended.is_passed:
                ended.losses, ended.adds_up = list(first_batch.losses), first_batch.adds_up
            first_batch.forget()
        self._ended = ended
        if is_last:
            self.close_update()

    def close_update(self) -> None:
        """Keep the loss of the last update that ended, if it has one: no more losses of it come."""
        ended, self._ended = self._ended, None
        if ended is None or not ended.losses:
            return
        is_one = len(ended.losses) == 1
        loss = ended.losses[0] if is_one else _combine(ended.losses, adds_up=ended.adds_up)
        self._by_step.append((ended.step, _to_host(loss)))

    def take(self, metrics: AsyncMetrics) -> list[tuple[int, float]]:
        """The losses of all updates since the last time, each with its update.

        Those on a device are recorded instead, and come with the numbers that arrive.

        Args:
            metrics: Takes the losses on a device.
        """
        by_step, self._by_step = self._by_step, []
        on_device = [(step, loss) for step, loss in by_step if isinstance(loss, Tensor)]
        if on_device:
            steps = tuple(str(step) for step, _ in on_device)
            metrics.record(LOSS, lambda: _stack([loss for _, loss in on_device]), steps)
        return [(step, loss) for step, loss in by_step if not isinstance(loss, Tensor)]


def losses_in(reading: tuple[Column, list[float]]) -> list[tuple[int, float]]:
    """The update and the loss of each number of a reading; empty if it holds no losses."""
    column, values = reading
    if column.id != LOSS:
        return []
    return [(int(step), loss) for step, loss in zip(column.places, values, strict=True)]


def as_mean(value: Tensor | float) -> Tensor:
    """A number as a tensor, without waiting for it; the mean of several numbers.

    Args:
        value: The number, or a tensor of any shape.
    """
    if not isinstance(value, Tensor):
        return torch.tensor(float(value), device="cpu")
    if not value.ndim and value.dtype is torch.float32:
        return value.detach().clone()  # the loop may write to its loss
    with silently():
        return value.detach().float().mean()


def _deviation(values: Tensor) -> Tensor:
    """The standard deviation of several numbers."""
    with silently():
        return values.detach().float().std(correction=0)


def _to_host(value: Tensor | float) -> Tensor | float:
    """A loss as a number, if it is one and reading it waits for no device."""
    if not isinstance(value, Tensor) or value.device.type != "cpu" or value.numel() != 1:
        return value
    return value.item()


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


def _combine(losses: Sequence[Tensor | float], *, adds_up: bool) -> Tensor:
    stacked = _stack(losses)
    return stacked.sum() if adds_up else stacked.mean()


def _stack(losses: Sequence[Tensor | float]) -> Tensor:
    device = next((loss.device for loss in losses if isinstance(loss, Tensor)), "cpu")
    return torch.stack([torch.as_tensor(loss).to(device, torch.float32) for loss in losses])
