"""What a fault is, and how one is put into a training.

Comes in: names, levels, changes. Goes out: frozen values. It does not know any fault itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.diagnosis.rows import Form
from benchmarks.diagnosis.setups import TUNED, Arch
from benchmarks.diagnosis.training import Training
from pellucid import config

Level = Any
Configure = Callable[[config.Run, Arch, Level], config.Run]
Inject = Callable[[Training, Level], None]
#: An invariant that is broken is a bug, whatever the loss; of the rest the outcome decides.
Kind = Literal["invariant", "dynamics"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A class of faults.

    `accepted` are the codes that are right answers. `tuning` and `judging` are its levels: of the
    runs that thresholds are chosen on, and of those that are reported. `base` names the healthy
    variant it is put into. `onset` is the update it begins at, 0 if before the first; `place` is a
    pattern of the named place, if a place is named. `repairable`: a change of config undoes it.
    """

    name: str
    accepted: tuple[str, ...]
    tuning: tuple[Level, Level]
    judging: tuple[Level, Level]
    configure: Configure | None = None
    inject: Inject | None = None
    kind: Kind = "dynamics"
    base: str = "plain"
    archs: tuple[Arch, ...] = TUNED
    onset: Callable[[Level], int] = lambda level: 0
    place: str = ""
    repairable: bool = False

    def levels(self, split: str) -> tuple[Level, Level]:
        """The levels of a split."""
        return self.tuning if split == "dev" else self.judging


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A healthy way to train. `form`: of its rows, where not the architecture's own."""

    name: str
    configure: Callable[[config.Run, Arch], config.Run] | None = None
    inject: Callable[[Training], None] | None = None
    form: Form | None = None
    archs: tuple[Arch, ...] = TUNED
