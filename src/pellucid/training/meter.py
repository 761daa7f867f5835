"""The numbers of the updates since the last report, kept on the device until one copy reads all."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from pellucid.training.step import StepNumbers


class Meter:
    """A buffer of `rows` updates, and a clock that can be stopped.

    Args:
        rows: the most updates between two readings.
        wait: waits until the device has computed all updates.
    """

    def __init__(self, rows: int, *, wait: Callable[[], None]) -> None:
        self._rows = rows
        self._wait = wait
        self._names: tuple[str, ...] = ()
        self._buffer = torch.empty(0)
        self._filled = 0
        self._tokens = 0
        self._seconds = 0.0
        self._lapped = 0.0
        self._started = time.perf_counter()

    def add(self, numbers: StepNumbers, n_tokens: int) -> None:
        """Take in one update; every update has the same parts."""
        row = {"blocked": numbers.blocked, "grad_norm": numbers.grad_norm, **numbers.parts}
        if not self._names:
            self._names = tuple(row)
            self._buffer = torch.zeros(self._rows, len(row), device=numbers.blocked.device)
        self._buffer[self._filled] = torch.stack([row[name].float() for name in self._names])
        self._filled += 1
        self._tokens += n_tokens

    def lap(self) -> float:
        """The seconds since the last lap or reading, once the device is done with its updates."""
        self._wait()
        seconds = self._seconds + time.perf_counter() - self._started
        lap, self._lapped = seconds - self._lapped, seconds
        return lap

    def read(self) -> tuple[list[dict[str, float]], float, float]:
        """Each update's gate, gradient norm and parts; tokens per second; seconds. Empties it."""
        rows = [
            dict(zip(self._names, row, strict=True))
            for row in _to_list(self._buffer[: self._filled])
        ]
        self.pause()
        seconds = self._seconds
        speed = self._tokens / seconds if seconds else 0.0
        self._filled, self._tokens, self._seconds, self._lapped = 0, 0, 0.0, 0.0
        self.resume()
        return rows, speed, seconds

    @property
    def filled(self) -> int:
        """How many updates were taken in since the last reading."""
        return self._filled

    def pause(self) -> None:
        """Stop the clock: what follows is not training."""
        self._seconds += time.perf_counter() - self._started

    def resume(self) -> None:
        """Start the clock again."""
        self._started = time.perf_counter()


def _to_list(rows: Tensor) -> list[list[float]]:
    return [[float(value) for value in row] for row in rows.cpu()]
