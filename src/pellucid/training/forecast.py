"""How long the rest of a run will take, from how long its parts have taken so far.

Comes in: seconds, and what they were spent on. Goes out: seconds. It does not know the loop.
"""

from __future__ import annotations

from collections import defaultdict, deque
from statistics import median
from typing import Literal

#: What time goes into: rows that are learnt from, evaluations, checkpoints.
Work = Literal["rows", "evaluations", "checkpoints"]

#: The median of so many of the latest paces counts: a machine may become slower, or faster, and
#: what disturbs a few of them is no pace.
_LATEST = 9


class Forecast:
    """Keeps the pace of each kind of work; the first of a kind is cold, and counts till the next.

    The first time something is done, memory is fetched, code is loaded and caches are empty.
    """

    def __init__(self) -> None:
        self._cold: dict[Work, float] = {}
        self._paces = defaultdict[Work, deque[float]](lambda: deque(maxlen=_LATEST))

    def knows(self, work: Work) -> bool:
        """Whether any such work was done, or was said to take so long."""
        return work in self._cold

    def has_few(self, work: Work) -> bool:
        """Whether fewer paces are known than count.

        Then each piece of work is worth timing by itself: in one of several, first looks at the
        run, which are on credit, would be a part, and so would what disturbs it.
        """
        return len(self._paces[work]) < _LATEST

    def expect(self, work: Work, seconds: float) -> None:
        """What work that was never done will take; it counts until the work is done."""
        self._cold.setdefault(work, seconds)

    def add(self, work: Work, seconds: float, amount: float = 1.0) -> None:
        """So much work took so many seconds."""
        pace = seconds / amount
        if self.knows(work):
            self._paces[work].append(pace)
        else:
            self._cold[work] = pace

    def seconds(self, work: Work, amount: float) -> float:
        """How long so much more of it will take; 0 of work that was never done."""
        paces = self._paces[work]
        return amount * (median(paces) if paces else self._cold.get(work, 0.0))

    def left(self, *, rows: int, evaluations: int, checkpoints: int) -> float:
        """How long so much more of each will take."""
        return (
            self.seconds("rows", rows)
            + self.seconds("evaluations", evaluations)
            + self.seconds("checkpoints", checkpoints)
        )


def still_to_come(step: int, total: int, every: int) -> int:
    """How often what is done `every` so many updates, and after the last, is yet to be done.

    After update `step` it has not been done, if its turn is now.
    """
    return total // every - (step - 1) // every + (total % every > 0)
