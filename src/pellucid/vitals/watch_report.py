"""What a watch can tell at any time: signs, rows, what is missing, and what it cost."""

from __future__ import annotations

from threading import get_ident
from typing import Any, NamedTuple

import torch

from pellucid.training import Guard
from pellucid.vitals.model_parts import Anatomy
from pellucid.vitals.overhead_budget import Cost
from pellucid.vitals.part_losses import Losses
from pellucid.vitals.predictions import Predicted
from pellucid.vitals.probe import Probe, ProbeRunner
from pellucid.vitals.schedule import LookSchedule
from pellucid.vitals.signs import Row, Sign, format_row, rows
from pellucid.vitals.taps.first_batch import FirstBatch
from pellucid.vitals.unavailable import missing
from pellucid.vitals.update_sizes import Updates
from pellucid.vitals.verdicts import VerdictTracker


class WatchState(NamedTuple):
    """Signs so far (`judge.record` has them in order), the model's parts, whose steps they were.

    `told` is how many losses were handed over.
    """

    judge: VerdictTracker
    anatomy: Anatomy
    optimisers: tuple[torch.optim.Optimizer, ...]
    probe: Probe | None
    told: int


class WatchReport:
    """The half of a watch that answers questions."""

    guard: Guard
    #: updates that are done
    updates: int
    _anatomy: Anatomy
    _optimisers: tuple[torch.optim.Optimizer, ...]
    _judge: VerdictTracker
    _rounds: LookSchedule
    _losses: Losses
    _updates: Updates
    _capture: FirstBatch | None
    _looking: ProbeRunner | None
    _predicted: Predicted | None
    #: the thread that trains, once it is known: no other may run the model
    _thread: int | None

    @property
    def signs(self) -> tuple[Sign, ...]:
        """The latest of each sign."""
        return tuple(self._judge.signs.values())

    @property
    def judge(self) -> VerdictTracker:
        """Who finds the words; to be told what is measured elsewhere."""
        return self._judge

    @property
    def seen(self) -> WatchState:
        """All that causes are found from; a probe only for the thread that trains."""
        mine = self._thread in (None, get_ident())
        probe = self._looking.probe if self._looking is not None and mine else None
        return WatchState(self._judge, self._anatomy, self._optimisers, probe, self._losses.told)

    @property
    def missing(self) -> dict[str, str]:
        """What cannot be watched in this training, and why; what was switched off is here, too."""
        of_training = self.guard(
            "missing",
            missing,
            self._anatomy,
            self._looking,
            self._predicted,
            self._updates if self._optimisers else None,
            has_loss="loss.value" in self._judge.signs,
            reason="" if self._capture is None else self._capture.reason,
        )
        return (of_training or {}) | {
            part: f"switched off: {why}" for part, why in self.guard.off.items()
        }

    @property
    def cost(self) -> Cost:
        """What watching has cost so far."""
        return self._rounds.cost

    def summary(self) -> tuple[Row, ...]:
        """The five rows, with a word each."""
        return rows(self.signs)

    def report(self) -> str:
        """The five rows, what was switched off, and the cost, as text."""
        lines = self.guard("the report", lambda: [format_row(row) for row in self.summary()]) or []
        lines += [f"switched off: {part}: {why}" for part, why in self.guard.off.items()]
        return "\n".join((*lines, self.cost.told(self._rounds.share)))

    def state_dict(self) -> dict[str, Any]:
        """The windows that words depend on, as plain values, for a training that is resumed."""
        windows = self.guard("saving readings", self._judge.state_dict)
        return {"updates": self.updates} | ({} if windows is None else {"judge": windows})
