"""Keys and values kept between calls, so that a new token costs one row and not the whole square.

Comes in: the keys and values of new tokens. Goes out: those of all tokens so far. `NoCache` returns
its input: attention calls it always and never asks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class KeysAndValues(NamedTuple):
    """The keys and values that queries may look at."""

    keys: Float[Tensor, "batch heads time d_head"]
    values: Float[Tensor, "batch heads time d_head"]


class NoCache:
    """Nothing came before and nothing is kept."""

    #: How many tokens came before those in hand.
    length: int = 0

    def extend(
        self,
        keys: Float[Tensor, "batch heads time d_head"],
        values: Float[Tensor, "batch heads time d_head"],
    ) -> KeysAndValues:
        """All keys and values so far: those just given."""
        return KeysAndValues(keys, values)


class KeyValueCache(NoCache):
    """One layer's keys and values, in a buffer of the full context allocated once."""

    def __init__(self, *, context_length: int) -> None:
        self.context_length = context_length
        self.length = 0
        self._store: KeysAndValues | None = None

    def extend(
        self,
        keys: Float[Tensor, "batch heads time d_head"],
        values: Float[Tensor, "batch heads time d_head"],
    ) -> KeysAndValues:
        """All keys and values so far, those just given at the end."""
        if self._store is None:
            batch, heads, _, width = keys.shape
            room = (batch, heads, self.context_length, width)
            self._store = KeysAndValues(
                torch.empty(room, dtype=keys.dtype, device=keys.device),
                torch.empty(room, dtype=values.dtype, device=values.device),
            )
        start, end = self.length, self.length + keys.shape[2]
        self._store.keys[:, :, start:end] = keys
        self._store.values[:, :, start:end] = values
        self.length = end
        return KeysAndValues(self._store.keys[:, :, :end], self._store.values[:, :, :end])
