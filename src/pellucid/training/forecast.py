"""How long the rest of a run will take, from how long its parts have taken so far.

Comes in: seconds, and what they were spent on. Goes out: seconds. It does not know the loop.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

#: What time goes into: rows that are learnt from, evaluations, checkpoints.
Work = Literal["rows", "evaluations", "checkpoints"]

#: How much of what was known is kept when more is: a machine may become slower, or faster.
_KEPT = 0.9


@dataclass(slots=True)
class _Spent:
    seconds: float = 0.0
    amount: float = 0.0


class Forecast:
    """Adds up what each kind of work took; the latest counts most."""

    def __init__(self) -> None:
        self._spent = defaultdict[Work, _Spent](_Spent)

    def add(self, work: Work, seconds: float, amount: float = 1.0) -> None:
        """So much work took so many seconds."""
        spent = self._spent[work]
        spent.seconds = _KEPT * spent.seconds + seconds
        spent.amount = _KEPT * spent.amount + amount

    def seconds(self, work: Work, amount: float) -> float:
        """How long so much more of it will take; 0 of work that was never done."""
        spent = self._spent[work]
        return amount * spent.seconds / spent.amount if spent.amount else 0.0


def still_to_come(step: int, total: int, every: int) -> int:
    """How often what is done `every` so many updates, and after the last, is yet to be done.

    After update `step` it has not been done, if its turn is now.
    """
    return total // every - (step - 1) // every + (total % every > 0)
