"""How long the rest of a run will take, by the time that its parts have taken so far."""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median
from typing import Literal

#: The kinds of work: rows to learn from, evaluations, snapshots for checkpoints, and the writing
#: of a checkpoint, for which only the end of a run waits.
Work = Literal["rows", "evaluations", "checkpoints", "saving"]

#: The median of this many latest paces counts: a machine may change its speed, and a few paces may
#: be disturbed.
_LATEST = 9


class Forecast:
    """Keeps the pace of each kind of work.

    The first of a kind is slower, since memory is fetched, code is loaded and caches are empty. It
    counts only until the second.
    """

    def __init__(self) -> None:
        self._cold: dict[Work, float] = {}
        self._paces = defaultdict[Work, deque[float]](lambda: deque(maxlen=_LATEST))

    def has_pace(self, work: Work) -> bool:
        """Whether any such work was done or expected."""
        return work in self._cold

    def has_few_paces(self, work: Work) -> bool:
        """Whether fewer paces are known than the median needs.

        Then it is worth timing each piece of work alone: a pace over several pieces would include
        the first vital signs, which may take long, and other disturbances.
        """
        return len(self._paces[work]) < _LATEST

    def expect(self, work: Work, seconds: float) -> None:
        """Expect work to take so many seconds, until it is done for the first time."""
        self._cold.setdefault(work, seconds)

    def add(self, work: Work, seconds: float, amount: float = 1.0) -> None:
        """Record how many seconds an amount of work took."""
        pace = seconds / amount
        if self.has_pace(work):
            self._paces[work].append(pace)
        else:
            self._cold[work] = pace

    def seconds(self, work: Work, amount: float) -> float:
        """How long an amount of work will take; 0 for work that was never done."""
        paces = self._paces[work]
        return amount * (median(paces) if paces else self._cold.get(work, 0.0))

    def left(self, *, rows: int, evaluations: int, checkpoints: int) -> float:
        """How long the remaining work of each kind will take."""
        return (
            self.seconds("rows", rows)
            + self.seconds("evaluations", evaluations)
            + self.seconds("checkpoints", checkpoints)
            + self.seconds("saving", min(1, checkpoints))
        )


def count_remaining(step: int, total: int, every: int) -> int:
    """How often work that is done at intervals, and after the last update, remains to be done.

    If it is the turn of update `step`, it counts as not done.

    Args:
        step: how many updates are done.
        total: how many updates the run has.
        every: the interval, in updates.
    """
    return total // every - (step - 1) // every + (total % every > 0)
