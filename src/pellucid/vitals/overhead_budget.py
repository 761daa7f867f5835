"""How much time watching may take: a budget that grows as training runs and pays for readings."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

#: The share of the training's time that watching may take by default.
MAX_OVERHEAD = 0.02


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of watching so far: its seconds, the training's seconds, the number of readings.

    Attributes:
        seconds: of watching.
        training_seconds: of the loop itself.
        n_readings: how many readings were taken.
    """

    seconds: float
    training_seconds: float
    n_readings: int

    @property
    def share(self) -> float:
        """The share of the training's time, which does not include watching."""
        return self.seconds / self.training_seconds if self.training_seconds else 0.0

    def message(self, bound: float | None = MAX_OVERHEAD) -> str:
        """The cost as a line; a second line says why it is more than `bound`."""
        share = f"{self.share:.1%} of training"
        line = f"watching took {self.seconds:.2f} s, {share}, in {self.n_readings} readings"
        if bound is None or round(self.share, 3) <= bound:  # as it is shown
            return line
        return f"{line}\n(more than {bound:.0%}: first readings, or very short updates)"


class OverheadBudget:
    """Grows by `share` of the training's time; a reading needs the cost of the last one saved up.

    The first reading is free, because its cost is not known yet. With a `share` of None every
    reading is free.
    """

    def __init__(self, share: float | None) -> None:
        self._share = share
        #: seconds of all readings so far
        self.spent = 0.0
        #: the cost of the last reading, which is the estimate for the next one
        self.last = 0.0
        self.n_readings = 0

    def pays(self, training_seconds: float) -> bool:
        """Whether another reading like the last one fits into the budget of so much training."""
        free = self._share is None or self.n_readings == 0
        return free or self.spent + self.last <= (self._share or 0.0) * training_seconds

    def begin(self) -> None:
        """Begin a reading."""
        self.n_readings += 1
        self.last = 0.0

    def paid(self, seconds: float) -> None:
        """Add the cost of a reading, or of a part of it."""
        self.spent += seconds
        self.last += seconds


class Clock:
    """Seconds of training and seconds of watching, also those that the device has not reported.

    All work of a watch happens between `enter` and `finish`, so that whatever it does while
    training runs is counted: a part within another one counts once. On a GPU a reading returns
    before it is done. Events measure its time there, and `settle` reads them later.
    """

    def __init__(self) -> None:
        self.watching = 0.0
        #: whether the watch works now, so that its time is counted already
        self.is_inside = False
        #: seconds that count neither as training nor as watching
        self._excluded = 0.0
        self._started_at: float | None = None
        self._before = 0.0
        self._owed: list[tuple[Any, Any, float, OverheadBudget]] = []

    def start(self) -> None:
        """Training begins or resumes now; if it already runs, nothing changes."""
        self._started_at = self._now() if self._started_at is None else self._started_at

    def pause(self) -> None:
        """Training pauses, for an evaluation or a checkpoint."""
        if self._started_at is not None:
            self._before += self._now() - self._started_at
            self._started_at = None

    def _now(self) -> float:
        return time.perf_counter() - self._excluded

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Count the time within neither as training nor as watching."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._excluded += time.perf_counter() - started

    @property
    def training(self) -> float:
        """Seconds of training so far, without watching."""
        running = 0.0 if self._started_at is None else self._now() - self._started_at
        return self._before + running - self.watching

    def enter(self) -> float | None:
        """Watching begins; None if it has begun already, or if training pauses."""
        if self.is_inside or self._started_at is None:
            return None
        self.is_inside = True
        return time.perf_counter() - self._excluded

    def finish(self, started_at: float | None) -> None:
        """Watching ends.

        Args:
            started_at: What `enter` returned.
        """
        if started_at is not None:
            self.is_inside = False
            self.watching += time.perf_counter() - self._excluded - started_at

    @contextmanager
    def look(self, budget: OverheadBudget, device: torch.device) -> Generator[None]:
        """Count the time within as watching, paid from `budget`."""
        began, ended = _marks(device)
        started_at, started = self.enter(), time.perf_counter()
        try:
            with uncollected():
                yield
        finally:
            seconds = time.perf_counter() - started
            self.finish(started_at)
            budget.paid(seconds)
            if began is not None:
                ended.record()
                self._owed.append((began, ended, seconds, budget))

    def settle(self) -> None:
        """Add the time that readings took on the device after they returned, without waiting."""
        while self._owed and self._owed[0][1].query():
            began, ended, seconds, budget = self._owed.pop(0)
            excess = max(0.0, began.elapsed_time(ended) / 1000 - seconds)
            self.watching += excess
            budget.paid(excess)


class uncollected(ContextDecorator):  # noqa: N801  (it is used like a function)
    """Postpone Python's garbage collection until the end.

    A full collection takes up to half a second in a process that has loaded many libraries. It is
    due sooner or later in any case; within a reading it would count as its cost, and the budget
    would then not pay for another reading for a long time.
    """

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()


def _marks(device: torch.device) -> tuple[Any, Any]:
    if device.type != "cuda":
        return None, None
    began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    began.record()
    return began, ended
