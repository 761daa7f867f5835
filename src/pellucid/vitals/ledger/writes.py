"""Writes to weights between two updates, also in updates that the ledger does not look at.

Torch counts what is written to each tensor. If the count is another one than after the step before,
something else than the optimiser has written, and a few numbers say how far it moved them, from the
second time on. Numbers that were swapped out and in again have not moved. Torch does not count a
write to `.data`: on a CPU, where reading numbers waits for nothing, some are compared. There one
weight also tells whether what was written is, to the bit, what was there after an earlier update.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.ledger.witnesses import Witnesses
from pellucid.vitals.taps.hooks import IdleSpell

#: In an idle spell, every so many of the witnesses stands for all.
_STRIDE = 4
_SIGN, _REPEAT, _RETURN = "update.written", "update.written_again", "update.returned"
#: So many states of one weight are remembered.
_MOST_STATES = 2**17


class Writes:
    """Looks at every update for what was written since the one before.

    Args:
        optimisers: Those that step.
        idle_spell: While it is on, a few tensors stand for all of them.
    """

    def __init__(self, optimisers: Sequence[Optimizer], idle_spell: IdleSpell) -> None:
        self._optimisers = optimisers
        self._idle_spell = idle_spell
        self._witnesses: Witnesses | None = None
        self._counts: list[int] = []
        #: numbers of a few weights on a CPU, after the last step
        self._last_numbers: list[Tensor] = []
        #: by the bits of one weight on a CPU: the step after which it had them; the number of steps
        self._steps_by_bits: dict[int, int] = {}
        self._n_steps = 0
        #: whether anything was written so far: only then are the numbers kept, as that takes time
        self._was_written = False
        #: the numbers that were written last
        self._last_write: Tensor | None = None
        #: the numbers before and after the last step
        self._before: Tensor | None = None
        self._after: Tensor | None = None

    def begin(self, metrics: AsyncMetrics) -> None:
        """Before an update's first step: record how far weights were moved, of the step before."""
        if self._witnesses is None:
            self._witnesses = Witnesses(self._optimisers)
            self._keep_bits()  # those of the start
        is_written = bool(self._counts) and self._differ(self._count())
        is_written = is_written or (bool(self._last_numbers) and self._are_weights_others())
        if is_written:
            self._record_return(metrics)
        if is_written or self._was_written:
            self._record_move(metrics, is_written=is_written)

    def _record_return(self, metrics: AsyncMetrics) -> None:
        """Record how many steps are lost if one weight is what it was after an earlier step."""
        bits = self._bits()
        step = None if bits is None else self._steps_by_bits.get(bits)
        if step is not None and step < self._n_steps:
            metrics.record(_RETURN, torch.tensor(float(self._n_steps - step), device="cpu"))

    @torch.no_grad()
    def _record_move(self, metrics: AsyncMetrics, *, is_written: bool) -> None:
        before, after, self._was_written = self._before, self._after, True
        if not is_written:
            self._before = after
            return
        now = self._before = self._weights()
        last_write, self._last_write = self._last_write, now
        if before is None or after is None or last_write is None:
            return
        step, move = ((y - x).square().sum().sqrt() for x, y in ((before, after), (after, now)))
        share = move / step
        metrics.record(_SIGN, torch.where(step > 0, share, torch.zeros_like(share)))
        metrics.record(_REPEAT, ((now == last_write).all() & (share > 0)).float())

    def end(self) -> None:
        """After an update's last step."""
        if self._witnesses is None:
            return
        self._counts = self._count()
        self._last_numbers = [numbers.clone() for numbers in self._few_weights()]
        self._n_steps += 1
        self._keep_bits()
        if self._was_written:
            self._after = self._weights()

    @torch.no_grad()
    def _weights(self) -> Tensor:
        assert self._witnesses is not None
        return torch.cat(self._witnesses.weights()).float()

    def _are_weights_others(self) -> bool:
        """Whether the numbers that are compared are others than after the last step."""
        for before, now in zip(self._last_numbers, self._few_weights(), strict=False):
            if not torch.equal(before, now):
                return bool(now.isfinite().all())  # what is no number equals nothing
        return False

    def _few_weights(self) -> list[Tensor]:
        """Some numbers of a few weights, as views; none on other devices than a CPU."""
        assert self._witnesses is not None
        if self._witnesses.device.type != "cpu" or not self._witnesses.parameters:
            return []
        n = 1 if self._idle_spell.is_on else len(self._witnesses.parameters)
        return [self._witnesses.weight(place) for place in range(0, n, _STRIDE)]

    def _keep_bits(self) -> None:
        """Remember the bits of one weight, and how many steps led to them."""
        bits = self._bits()
        if bits is not None and len(self._steps_by_bits) < _MOST_STATES:
            self._steps_by_bits[bits] = self._n_steps

    def _bits(self) -> int | None:
        """A number of all bits of one weight's numbers; None on other devices than a CPU.

        A gain or a bias has a part in every call, and is moved by every step.
        """
        witnesses = self._witnesses
        if witnesses is None or witnesses.device.type != "cpu" or not witnesses.parameters:
            return None
        numbers = witnesses.weight(witnesses.first_vector).clone()
        return hash(numbers.view(torch.uint8).numpy().tobytes())

    def _count(self) -> list[int]:
        """How often each witness was written to, or each of a few."""
        assert self._witnesses is not None
        parameters = self._witnesses.parameters
        parameters = parameters[::_STRIDE] if self._idle_spell.is_on else parameters
        return [parameter._version for parameter in parameters]

    def _differ(self, counts: list[int]) -> bool:
        """Whether counts differ from those before, as far as both have them."""
        before = self._counts
        if len(before) < len(counts):
            counts = counts[::_STRIDE]
        elif len(before) > len(counts):
            before = before[::_STRIDE]
        return before != counts
