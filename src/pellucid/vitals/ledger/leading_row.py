"""Whether one place of a batch takes most of the gradient in every update.

Texts are compared with those of another call, and each is pulled to its partner. If all are pulled
to one and the same text, that one alone gets about half of the gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from pellucid.vitals.taps.outputs import output_attribute, tensors_in
from pellucid.vitals.taps.recorded_call import is_plain

#: Fewer rows, or updates, have one leading row by chance.
_FEWEST_ROWS, _FEWEST_UPDATES = 8, 4
#: About so many numbers of a gradient are read.
_NUMBERS = 2**18


def states_in(output: object, rows: int) -> Iterator[Tensor]:
    """The vectors of rows, or of their tokens, in what a call returns; of several, the first two.

    What is named logits is none. None of few rows, where one leads by chance.

    Args:
        output: What it returned.
        rows: How many rows the call had.
    """
    if rows < _FEWEST_ROWS:
        return iter(())
    hidden_state = output_attribute(output, "last_hidden_state")
    has_logits = output_attribute(output, "logits") is not None
    outputs = hidden_state if isinstance(hidden_state, Tensor) else () if has_logits else output
    states = (value for value in tensors_in(outputs) if value.ndim in (2, 3) and is_plain(value))
    return islice((value for value in states if len(value) == rows and value.requires_grad), 2)


class LeadingRow:
    """Compares what the rows of the two calls of an update get of its gradient."""

    def __init__(self) -> None:
        #: of each call of the open update: rows, the share of the leading one, and its place
        self._calls: list[Tensor] = []
        #: of the calls of an update, the one with the clearer leader; one for each update
        self._leaders: list[Tensor] = []

    def add(self, gradient: Tensor) -> None:
        """Take the gradient by the vectors of a call.

        Args:
            gradient: (rows, numbers) or (rows, time, numbers).
        """
        numbers = gradient.detach().reshape(len(gradient), -1)
        stride = max(1, numbers.numel() // _NUMBERS)
        sizes = numbers[:, ::stride].float().square().sum(-1).sqrt()
        share = sizes.amax() / sizes.sum().clamp_min(1e-30)
        n = torch.full_like(share, len(sizes))
        self._calls.append(torch.stack([n, share, sizes.argmax().float()]))

    def end_update(self) -> None:
        """Keep the leader if the update had two calls: partners are as many."""
        if len(self._calls) == 2:
            first, second = self._calls
            leader = torch.where(first[1] > second[1], first, second)
            self._leaders.append(torch.where(first[0] == second[0], leader, -1.0))
        self._calls = []

    def take_signs(self) -> dict[str, Tensor]:
        """The signs of the updates so far, which are forgotten."""
        if len(self._leaders) < _FEWEST_UPDATES:
            return {}
        n, shares, places = torch.stack(self._leaders).unbind(1)
        is_one = (places == places[0]).all() & (n > 0).all()
        self._leaders = []
        signs = {"vectors.led": torch.where(is_one, shares.amin(), 0.0)}
        return signs | {"vectors.leader": torch.where(is_one, places[0], -1.0)}
