"""What a fault is: other pieces in the place of right ones.

Comes in: pieces of a loop. Goes out: pieces of a loop, one of them wrong. It does not know who
runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.diagnosis.elsewhere.families import Family
from benchmarks.diagnosis.elsewhere.parts import Parts, cross_entropy, own_loss

Change = Callable[[Parts, Family], Parts]
ROWS = ("lm", "mlm", "seq2seq", "classify")
ANSWERS = ("sft", "reward", "dpo", "grpo")
ANY = (*ROWS, *ANSWERS)
TOKENS = ("lm", "mlm", "seq2seq")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A kind of fault, or with `healthy` an odd way to train; `tasks` are those it can be made in.

    `own`: for loops that compute their loss themselves (True), that take the model's (False), or
    for both (None). `fits` says of which families.
    """

    name: str
    change: Change
    tasks: tuple[str, ...]
    own: bool | None = None
    healthy: bool = False
    fits: Callable[[Family], bool] = lambda family: True

    def can_be_made(self, base: Parts, writes: frozenset[str], task: str, family: Family) -> bool:
        """Whether users of a style could make it there."""
        if task not in self.tasks or not self.fits(family):
            return False
        if self.own is not None and base.loss is not (cross_entropy if self.own else own_loss):
            return False
        changed = self.change(base, family).changed(base)
        return changed <= writes and bool(changed or self.healthy)


class Faults(list[Fault]):
    """Faults, or healthy ways to train, each added by the function that makes it."""

    def __init__(self, *, healthy: bool = False) -> None:
        super().__init__()
        self._healthy = healthy

    def add(self, name: str, tasks: tuple[str, ...] = ANY, **fields: Any) -> Any:
        """A decorator for the change of a fault."""

        def keep(change: Change) -> Change:
            fields["healthy"] = self._healthy
            self.append(Fault(name=name, change=change, tasks=tasks, **fields))
            return change

        return keep
