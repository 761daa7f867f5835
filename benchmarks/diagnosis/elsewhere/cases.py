"""Which trainings there are in each split, by name.

Comes in: the name of a split. Goes out: cases. It does not run any.

The splits share no family and no style of loop. Thresholds may be tuned on `tune`, with one seed;
`test` has three seeds, and is run once after code and thresholds are frozen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from benchmarks.diagnosis.elsewhere.families import CLASSIFIED, FAMILIES, Split
from benchmarks.diagnosis.elsewhere.faults.fault import Fault
from benchmarks.diagnosis.elsewhere.faults.listed import FAULTS, KINDS
from benchmarks.diagnosis.elsewhere.odd.listed import ODD
from benchmarks.diagnosis.elsewhere.styles.listed import STYLES

TWIN = "healthy twin"
SEEDS = {"tune": (11,), "test": (101, 102, 103)}
#: Each kind of fault, and each odd way, is put into so many loops of a split.
_LOOPS = 3


@dataclass(frozen=True, order=True)
class Case:
    """One training: a style, a family, a task, a seed, and what is wrong or odd in it."""

    split: Split
    style: str
    family: str
    task: str
    what: str
    seed: int

    @property
    def name(self) -> str:
        """What its file is called."""
        words = (self.style, self.family, self.task, self.what, str(self.seed))
        return "-".join(word.replace(" ", "_").replace("/", "by") for word in words)

    @property
    def fault(self) -> Fault | None:
        """What is wrong in it; None if nothing is."""
        return next((f for f in places(self) if not f.healthy and f.name == self.what), None)

    @property
    def twin(self) -> Case:
        """The same training with nothing wrong in it."""
        return replace(self, what=TWIN)

    @property
    def odd(self) -> Fault | None:
        """What is odd in it; None if nothing is."""
        return next((o for o in places(self) if o.healthy and o.name == self.what), None)

    def as_dict(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


@cache
def _made(style: str, family: str, task: str) -> tuple[Fault, ...]:
    """All faults and odd ways that can be made in a loop."""
    written = STYLES[style]
    return tuple(
        change
        for change in (*FAULTS, *ODD)
        if change.can_be_made(written.base, written.writes, task, FAMILIES[family])
    )


def places(case: Case) -> tuple[Fault, ...]:
    """All that could be wrong or odd in the loop of a case."""
    return _made(case.style, case.family, case.task)


def cases(split: Split) -> list[Case]:
    """All of a split, mixed: the first ones are a fair sample of it."""
    chosen = {case for what in (*KINDS, *(odd.name for odd in ODD)) for case in _of(split, what)}
    chosen |= {case.twin for case in chosen}
    return sorted(chosen, key=lambda case: hashlib.sha256(case.name.encode()).digest())


def one_of_each(split: Split, seed: int) -> list[Case]:
    """One training of each kind, with one seed and its twin: as few twins as the loops allow.

    Another seed takes other loops.

    The kinds are mixed, and a twin comes right after the first run that needs it: the first ones
    are a fair sample.
    """
    taken = dict[Case, None]()
    by_kind: dict[str, list[Case]] = {}
    for case in cases(split):
        if case.seed == seed and case.what != TWIN:
            by_kind.setdefault(case.what, []).append(case)
    for what in sorted(by_kind, key=lambda what: hashlib.sha256(what.encode()).digest()):
        case = min(by_kind[what], key=lambda case: case.twin not in taken)
        taken |= dict.fromkeys((case, case.twin))
    return list(taken)


def _of(split: Split, what: str) -> Iterator[Case]:
    """The loops that something is put into: of several styles, tasks and families, by lot."""
    able = [case for case in _loops(split) if any(change.name == what for change in places(case))]
    lots = sorted(able, key=lambda c: hashlib.sha256(f"{what} {c.name}".encode()).digest())
    taken: list[Case] = []
    while lots and len(taken) < _LOOPS:
        # the loop that shares least with those that are taken
        best = min(
            lots,
            key=lambda c: sum(
                (c.style == t.style) + (c.task == t.task) + (c.family == t.family) for t in taken
            ),
        )
        lots.remove(best)
        taken.append(best)
    for case in taken:
        for seed in SEEDS[split]:
            yield replace(case, what=what, seed=seed)


def _loops(split: Split) -> Iterator[Case]:
    for style in STYLES.values():
        for task, kinds in style.tasks.items():
            for family in FAMILIES.values():
                # transformers has no classifiers on top of state-space models
                fits = family.kind in kinds and (family.attends or task not in CLASSIFIED)
                if {style.split, family.split} == {split} and fits:
                    yield Case(split, style.name, family.name, task, "", 0)
