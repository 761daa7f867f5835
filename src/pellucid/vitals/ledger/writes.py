"""Writes to weights between two updates, also in updates that the ledger does not look at.

Torch counts what is written to each tensor. If the count is another one than after the step before,
something else than the optimiser has written, and a few numbers say how far it moved them, from the
second time on. Numbers that were swapped out and in again have not moved. A write to `.data` is not
counted.
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
        #: whether anything was written so far: only then are the numbers kept, as that takes time
        self._was_written = False
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
        is_written = bool(self._counts) and self._counts != _counts(self._witnesses)
        if not (is_written or self._was_written):
            return
        before, after, self._was_written = self._before, self._after, True
        if not is_written:
            self._before = after
            return
        now = self._before = torch.cat(self._witnesses.weights()).float()
        last_write, self._last_write = self._last_write, now
        if before is None or after is None or last_write is None:
            return
        step, move = ((y - x).square().sum().sqrt() for x, y in ((before, after), (after, now)))
        share = move / step
        metrics.record(_SIGN, torch.where(step > 0, share, torch.zeros_like(share)))
        metrics.record(_REPEAT, ((now == last_write).all() & (share > 0)).float())

    @torch.no_grad()
    def end(self) -> None:
        """After an update's last step."""
        if self._witnesses is None:
            return
        self._counts = _counts(self._witnesses)
        if self._was_written:
            self._after = torch.cat(self._witnesses.weights()).float()


def _counts(witnesses: Witnesses) -> list[int]:
    """How often each witness was written to."""
    return [parameter._version for parameter in witnesses.parameters]
