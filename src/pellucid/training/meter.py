"""The numbers of the updates since the last report, kept on the device until they are read.

Comes in: device scalars. Goes out: floats, all of them in one copy. It does not know what they
mean.
"""

from __future__ import annotations

import sys
import time

import torch
from torch import Tensor

from pellucid.training.step import StepNumbers


class Meter:
    """A device buffer of `rows` updates, and a clock that can be stopped."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self._rows = rows
        self._device = device
        self._names: tuple[str, ...] = ()
        self._buffer = torch.empty(0)
        self._filled = 0
        self._tokens = 0
        self._seconds = 0.0
        self._lapped = 0.0
        self._since = time.perf_counter()

    def add(self, numbers: StepNumbers, n_tokens: int) -> None:
        """Take in one update; every update has the same parts."""
        row = {"blocked": numbers.blocked, "grad_norm": numbers.grad_norm, **numbers.parts}
        if not self._names:
            self._names = tuple(row)
            self._buffer = torch.zeros(self._rows, len(row), device=self._device)
        self._buffer[self._filled] = torch.stack([row[name].float() for name in self._names])
        self._filled += 1
        self._tokens += n_tokens

    def lap(self) -> float:
        """The seconds since the last lap or reading, once the device is done with its updates."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        seconds = self._seconds + time.perf_counter() - self._since
        lap, self._lapped = seconds - self._lapped, seconds
        return lap

    def read(self) -> tuple[list[dict[str, float]], float]:
        """Each update's gate, gradient norm and parts; tokens per second. Empties it."""
        rows = [
            dict(zip(self._names, row, strict=True))
            for row in _to_list(self._buffer[: self._filled])
        ]
        self.pause()
        seconds = self._seconds
        speed = self._tokens / seconds if seconds else 0.0
        self._filled, self._tokens, self._seconds, self._lapped = 0, 0, 0.0, 0.0
        self.go_on()
        return rows, speed

    @property
    def filled(self) -> int:
        """How many updates were taken in since the last reading."""
        return self._filled

    def pause(self) -> None:
        """Stop the clock: what follows is not training."""
        self._seconds += time.perf_counter() - self._since

    def go_on(self) -> None:
        """Start the clock again."""
        self._since = time.perf_counter()


def _to_list(rows: Tensor) -> list[list[float]]:
    return [[float(value) for value in row] for row in rows.cpu()]


def memory_in_use(device: torch.device) -> int | None:
    """The most memory the run has held, in bytes; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
