"""How much watching may cost: a purse that fills as training runs, and pays for each look."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

#: The share of the training's time that watching may take, where nobody says another.
MAX_OVERHEAD = 0.02


@dataclass(frozen=True, slots=True)
class Cost:
    """What watching has cost so far: its seconds, the training's, and how often it looked."""

    seconds: float
    training_seconds: float
    looks: int

    @property
    def share(self) -> float:
        """Of the training's time, watching left out."""
        return self.seconds / self.training_seconds if self.training_seconds else 0.0

    def told(self, bound: float | None = MAX_OVERHEAD) -> str:
        """What it came to, in a line; and why, where that is more than `bound`."""
        share = f"{self.share:.1%} of training"
        line = f"watching took {self.seconds:.2f} s, {share}, in {self.looks} looks"
        if bound is None or self.share <= bound:
            return line
        return f"{line}\n(more than {bound:.0%}: first looks are on credit, the run was short)"


class OverheadBudget:
    """Filled by `share` of the time that passes; a look is paid for before the next one is made.

    The first look is made at once: nobody knows yet what it costs. With a `share` of None
    everything is paid for.
    """

    def __init__(self, share: float | None) -> None:
        self._share = share
        self._spent = 0.0
        #: what the last look cost, and the next one will, as far as is known
        self.last = 0.0
        self.looks = 0

    def pays(self, training_seconds: float) -> bool:
        """Whether another look like the last one fits into what so much training has saved."""
        free = self._share is None or self.looks == 0
        return free or self._spent + self.last <= (self._share or 0.0) * training_seconds

    def begin(self) -> None:
        """A look begins."""
        self.looks += 1
        self.last = 0.0

    def paid(self, seconds: float) -> None:
        """Take what a look cost, or a part of it."""
        self._spent += seconds
        self.last += seconds


class Clock:
    """Seconds of training and seconds of watching, apart; also those that the device still owes.

    On a GPU a look returns before it is done: its time there is measured by events, and read at the
    next turn.
    """

    def __init__(self) -> None:
        self.watching = 0.0
        self._since: float | None = None
        self._before = 0.0
        self._owed: list[tuple[Any, Any, float, OverheadBudget]] = []

    def start(self) -> None:
        """Training begins, or goes on, now; where it goes on already, nothing changes."""
        self._since = time.perf_counter() if self._since is None else self._since

    def pause(self) -> None:
        """What follows is not training: an evaluation, a checkpoint."""
        if self._since is not None:
            self._before += time.perf_counter() - self._since
            self._since = None

    @property
    def training(self) -> float:
        """Seconds of training so far, watching left out."""
        running = 0.0 if self._since is None else time.perf_counter() - self._since
        return self._before + running - self.watching

    @contextmanager
    def look(self, purse: OverheadBudget, device: torch.device) -> Generator[None]:
        """Within it, time is spent on watching, and `purse` pays."""
        began, ended = _marks(device)
        started = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - started
            self.watching += seconds
            purse.paid(seconds)
            if began is not None:
                ended.record()
                self._owed.append((began, ended, seconds, purse))

    def settle(self) -> None:
        """Take what looks took on the device beyond the host's share of them, where that is known.

        Asks, and does not wait.
        """
        while self._owed and self._owed[0][1].query():
            began, ended, seconds, purse = self._owed.pop(0)
            excess = max(0.0, began.elapsed_time(ended) / 1000 - seconds)
            self.watching += excess
            purse.paid(excess)


def _marks(device: torch.device) -> tuple[Any, Any]:
    if device.type != "cuda":
        return None, None
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    began.record()
    return began, ended
