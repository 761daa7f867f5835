"""Measurements of a step, which stay on the device and are read one step later in one copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from pellucid.training import Guard


class Column(NamedTuple):
    """One measurement at several places; `places` has a name for each of its numbers."""

    id: str
    places: tuple[str, ...]


class AsyncMetrics:
    """Holds two steps: one that is being measured, one on its way to the host."""

    def __init__(self, guard: Guard | None = None) -> None:
        #: guards each measurement
        self.guard = guard or Guard()
        self._columns: list[Column] = []
        self._tensors: list[Tensor] = []
        self._in_flight: tuple[int, list[Column], Tensor, Any] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether there are numbers of this step, or of one before that are on their way."""
        return bool(self._tensors) or self._in_flight is not None

    def record(
        self, id: str, values: Tensor | Callable[[], Tensor], places: tuple[str, ...] = ("",)
    ) -> None:
        """Keep some numbers of this step, or the result of a call; they stay on their device.

        If the call raises, the guard switches off this measurement, and no other.
        """
        self.guard(id, self._add_column, id, values, places)

    def _add_column(
        self, id: str, values: Tensor | Callable[[], Tensor], places: tuple[str, ...]
    ) -> None:
        numbers = (values if isinstance(values, Tensor) else values()).detach().reshape(-1)
        if len(numbers) != len(places) or numbers.is_meta:
            raise ValueError(f"expected {len(places)} numbers, got {numbers!r:.80}")
        self._columns.append(Column(id, places))
        self._tensors.append(numbers)

    def turn(self, step: int) -> tuple[int, list[tuple[Column, list[float]]]] | None:
        """End a step: send its numbers, and read the numbers of the step before."""
        arrived = self.read()
        columns, tensors = self._columns, self._tensors
        self._columns, self._tensors = [], []
        if tensors:
            self._send(step, columns, tensors)
        return arrived

    def _send(self, step: int, columns: list[Column], tensors: list[Tensor]) -> None:
        device = next((t.device for t in tensors if t.device.type != "cpu"), tensors[0].device)
        # numbers of the host, such as a loss that is a float, go to the device without waiting
        on_device = [t.to(device, non_blocking=True) for t in tensors]
        joined = torch.cat([t.to(device=device, dtype=torch.float64) for t in on_device])
        if device.type != "cuda":
            self._in_flight = (step, columns, joined.cpu(), None)
            return
        host = torch.empty(joined.shape, dtype=joined.dtype, pin_memory=True)
        host.copy_(joined, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._in_flight = (step, columns, host, (event, joined))

    def read(self) -> tuple[int, list[tuple[Column, list[float]]]] | None:
        """Wait for the numbers on their way; they are a step old, so they have long arrived."""
        if self._in_flight is None:
            return None
        step, columns, host, event = self._in_flight
        self._in_flight = None
        if event is not None:
            event[0].synchronize()
        numbers: list[float] = cast("Any", host).tolist()
        readings: list[tuple[Column, list[float]]] = []
        for column in columns:
            readings.append((column, numbers[: len(column.places)]))
            numbers = numbers[len(column.places) :]
        return step, readings
