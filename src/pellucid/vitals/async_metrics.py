"""What a step measured, kept on the device and read one step later, in one copy."""

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
    """Two steps long: one that is written, one that is on its way to the host."""

    def __init__(self, guard: Guard | None = None) -> None:
        #: what each measurement goes through
        self.guard = guard or Guard()
        self._columns: list[Column] = []
        self._tensors: list[Tensor] = []
        self._in_flight: tuple[int, list[Column], Tensor, Any] | None = None

    def put(
        self, id: str, values: Tensor | Callable[[], Tensor], places: tuple[str, ...] = ("",)
    ) -> None:
        """Keep some numbers of this step, or what a call gives; they stay on their device.

        If the call raises, this measurement is switched off, and no other.
        """
        self.guard(id, self._add_column, id, values, places)

    def _add_column(
        self, id: str, values: Tensor | Callable[[], Tensor], places: tuple[str, ...]
    ) -> None:
        numbers = (values if isinstance(values, Tensor) else values()).detach().reshape(-1)
        if len(numbers) != len(places) or numbers.is_meta:
            raise ValueError(f"{len(places)} numbers were expected, not {numbers!r:.80}")
        self._columns.append(Column(id, places))
        self._tensors.append(numbers)

    def turn(self, step: int) -> tuple[int, list[tuple[Column, list[float]]]] | None:
        """End a step: send its numbers, and read those of the step before."""
        arrived = self.read()
        columns, tensors = self._columns, self._tensors
        self._columns, self._tensors = [], []
        if tensors:
            self._send(step, columns, tensors)
        return arrived

    def _send(self, step: int, columns: list[Column], tensors: list[Tensor]) -> None:
        device = next((t.device for t in tensors if t.device.type != "cpu"), tensors[0].device)
        # numbers of the host (a loss that is a float) are sent; the device is not waited for
        sent = [t.to(device, non_blocking=True) for t in tensors]
        joined = torch.cat([t.to(device=device, dtype=torch.float64) for t in sent])
        if device.type != "cuda":
            self._in_flight = (step, columns, joined.cpu(), None)
            return
        host = torch.empty(joined.shape, dtype=joined.dtype, pin_memory=True)
        host.copy_(joined, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._in_flight = (step, columns, host, (event, joined))

    def read(self) -> tuple[int, list[tuple[Column, list[float]]]] | None:
        """What is under way, waited for: it is a step old, and has long arrived."""
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
