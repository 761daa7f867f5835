"""What a step measured, kept on the device and read one step later, in one copy.

Comes in: named tensors. Goes out: lists of floats, when they have arrived. It does not know what
they mean. Nothing here waits for the device, but the reading of what is a step old.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor


class Column(NamedTuple):
    """One measurement at several places; `places` has a name for each of its numbers."""

    id: str
    places: tuple[str, ...]


class Tape:
    """Two steps long: one that is written, one that is on its way to the host."""

    def __init__(self) -> None:
        self._columns: list[Column] = []
        self._tensors: list[Tensor] = []
        self._under_way: tuple[int, list[Column], Tensor, Any] | None = None

    def put(self, id: str, values: Tensor, places: tuple[str, ...] = ("",)) -> None:
        """Keep some numbers of this step; they stay on their device."""
        self._columns.append(Column(id, places))
        self._tensors.append(values.detach().reshape(-1))

    def turn(self, step: int) -> tuple[int, list[tuple[Column, list[float]]]] | None:
        """End a step: send its numbers, and read those of the step before."""
        arrived = self.read()
        if self._tensors:
            device = next((t.device for t in self._tensors if t.device.type != "cpu"), None)
            device = device or self._tensors[0].device
            wide = [t.to(device=device, dtype=torch.float64) for t in self._on(device)]
            together = torch.cat(wide)
            if device.type == "cuda":
                host = torch.empty(together.shape, dtype=together.dtype, pin_memory=True)
                host.copy_(together, non_blocking=True)
                event = torch.cuda.Event()
                event.record()
                self._under_way = (step, self._columns, host, (event, together))
            else:
                self._under_way = (step, self._columns, together.cpu(), None)
            self._columns, self._tensors = [], []
        return arrived

    def read(self) -> tuple[int, list[tuple[Column, list[float]]]] | None:
        """What is under way, waited for: it is a step old, and has long arrived."""
        if self._under_way is None:
            return None
        step, columns, host, event = self._under_way
        self._under_way = None
        if event is not None:
            event[0].synchronize()
        numbers: list[float] = cast("Any", host).tolist()
        found: list[tuple[Column, list[float]]] = []
        for column in columns:
            found.append((column, numbers[: len(column.places)]))
            numbers = numbers[len(column.places) :]
        return step, found

    def _on(self, device: torch.device) -> list[Tensor]:
        """Numbers of the host (a loss that is a float) are sent; the device is not waited for."""
        return [t.to(device, non_blocking=True) for t in self._tensors]
