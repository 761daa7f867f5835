"""Writes to weights between two updates, also in updates that the ledger does not look at.

Torch counts what is written to each tensor. If the count is another one than after the step before,
something else than the optimiser has written, and a few numbers say how far it moved them. Numbers
that were swapped out and in again have not moved. A write to `.data` is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.ledger.witnesses import Witnesses

_SIGN, _REPEAT = "update.written", "update.written_again"


class Writes:
    """Looks at every update for what was written since the one before.

    Args:
        optimisers: Those that step.
    """

    def __init__(self, optimisers: Sequence[Optimizer]) -> None:
        self._optimisers = optimisers
        self._witnesses: Witnesses | None = None
        self._counts: list[int] = []
        #: the numbers that were written last
        self._last_write: Tensor | None = None
        #: the numbers before and after the last step
        self._before: Tensor | None = None
        self._after: Tensor | None = None

    @torch.no_grad()
    def begin(self, metrics: AsyncMetrics) -> None:
        """Before an update's first step: record how far weights were moved, of the step before."""
        if self._witnesses is None:
            self._witnesses = Witnesses(self._optimisers)
        if not self._witnesses.parameters:
            return
        before, after = self._before, self._after
        if before is None or after is None:
            self._before = self._numbers(self._witnesses)
            return
        self._before = after
        if self._counts == _counts(self._witnesses):
            return
        now = self._before = self._numbers(self._witnesses)
        step, move = ((y - x).square().sum().sqrt() for x, y in ((before, after), (after, now)))
        share = move / step
        metrics.record(_SIGN, torch.where(step > 0, share, torch.zeros_like(share)))
        last_write, self._last_write = self._last_write, now
        if last_write is not None:
            metrics.record(_REPEAT, ((now == last_write).all() & (share > 0)).float())

    @torch.no_grad()
    def end(self) -> None:
        """After an update's last step."""
        if self._witnesses is None or not self._witnesses.parameters:
            return
        self._after = self._numbers(self._witnesses)
        self._counts = _counts(self._witnesses)

    def _numbers(self, witnesses: Witnesses) -> Tensor:
        return torch.cat(witnesses.weights()).float()


def _counts(witnesses: Witnesses) -> list[int]:
    """How often each witness was written to."""
    return [parameter._version for parameter in witnesses.parameters]
