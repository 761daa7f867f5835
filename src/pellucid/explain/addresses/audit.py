"""An audit of a sentence: every number recomputed from its operands, counted by kind of address."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.explain.chapter_types import Check, Difference
from pellucid.explain.trace_types import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """All addresses of a kind, such as L*.attention: how many numbers they hold, how many agree."""

    address: str
    numbers: int
    agreeing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """All numbers of a sentence, compared with what their operands give.

    `differing` has one number of each address that differs, in the order of the forward pass: the
    first is the one of the module that is wrong. `ends` are the kinds of address that nothing is
    computed for, each with the reason.
    """

    kinds: tuple[Kind, ...]
    differing: tuple[Difference, ...]
    ends: tuple[tuple[str, str], ...]

    @property
    def numbers(self) -> int:
        """How many numbers were recomputed."""
        return sum(kind.numbers for kind in self.kinds)

    @property
    def agreeing(self) -> int:
        """How many of them agree."""
        return sum(kind.agreeing for kind in self.kinds)

    @property
    def agrees(self) -> bool:
        """Whether every number agrees."""
        return not self.differing


def audit(trace: Trace, *, backward: bool = True, update: bool = False) -> Audit:
    """Recompute every number of a sentence.

    Args:
        trace: the sentence.
        backward: whether the gradients too.
        update: whether what the next optimiser step makes of every parameter too.
    """
    return summarise(trace.receipts(backward=backward, update=update))


def summarise(checks: Iterable[Check]) -> Audit:
    """Count the checks by kind of address."""
    numbers: dict[str, int] = {}
    agreeing: dict[str, int] = {}
    ends: dict[str, str] = {}
    differing: list[Difference] = []
    for check in checks:
        if check.reason is not None:
            ends.setdefault(check.pattern, check.reason)
            continue
        numbers[check.pattern] = numbers.get(check.pattern, 0) + check.numbers
        agreeing[check.pattern] = agreeing.get(check.pattern, 0) + check.agreeing
        if check.worst is not None:
            differing.append(check.worst)
    return Audit(
        kinds=tuple(
            Kind(address=kind, numbers=count, agreeing=agreeing[kind])
            for kind, count in numbers.items()
        ),
        differing=tuple(differing),
        ends=tuple(ends.items()),
    )
