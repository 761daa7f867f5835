"""The progress of a proof, fork by fork."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pellucid.diagnosis.proof.fork import Fork, Ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The progress of a proof: fork `number` of `n_forks`, update `step` of its `steps`.

    `fork` is its result, once it has ended.

    Attributes:
        label: the fix that the fork has; empty for none.
        seconds_left: to the end of the proof; None before the first fork.
    """

    number: int
    n_forks: int
    label: str
    step: int
    steps: int
    seconds_left: float | None
    fork: Fork | None = None


Advances = Callable[[Advance], None]


class Progress:
    """Counts the forks of a proof and their updates, and estimates the time left."""

    def __init__(self, advance: Advances) -> None:
        self._advance = advance
        self._number = self._updates = self.n_forks = self.all_updates = 0
        #: the time after the first update: imports and reading before it happen only once
        self._first: float | None = None

    def run(self, label: str, steps: int, fork: Callable[[Ticks], Fork]) -> Fork:
        """Run one fork and report its updates.

        Args:
            label: what the fork is, in words.
            steps: its updates.
            fork: runs it, and calls its argument after each update.
        """
        self._number += 1

        def report(step: int, result: Fork | None = None) -> None:
            self._advance(
                Advance(
                    number=self._number,
                    n_forks=self.n_forks,
                    label=label,
                    step=step,
                    steps=steps,
                    seconds_left=self._seconds_left(step),
                    fork=result,
                )
            )

        report(0)
        result = fork(report)
        report(result.steps, result)
        self._updates += steps
        return result

    def _seconds_left(self, step: int) -> float | None:
        """Estimated from the time of the updates after the first; None before there are two."""
        updates, time_now = self._updates + step, time.perf_counter()
        if updates and self._first is None:
            self._first = time_now
        if updates < 2 or self._first is None:
            return None
        return (time_now - self._first) / (updates - 1) * max(0, self.all_updates - updates)
