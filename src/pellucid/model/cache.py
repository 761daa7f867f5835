"""What a layer keeps between calls, so that a new token costs one row and not the whole square."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class KeysAndValues(NamedTuple):
    """The keys and values that queries may look at."""

    keys: Float[Tensor, "batch heads time d_head"]
    values: Float[Tensor, "batch heads time d_value"]


#: What a layer without keys carries on: tensors with the batch first.
State = tuple[Tensor, ...]


class NoCache:
    """Nothing came before and nothing is kept."""

    #: How many tokens came before those in hand.
    length: int = 0

    def extend(
        self,
        keys: Float[Tensor, "batch heads time d_head"],
        values: Float[Tensor, "batch heads time d_value"],
    ) -> KeysAndValues:
        """All keys and values so far: those just given."""
        return KeysAndValues(keys, values)

    def once(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        """What does not change from call to call, such as an encoder's keys and values."""
        return make()

    def state(self) -> State | None:
        """The running state that was kept last, or None before there is one."""
        return None

    def keep(self, state: State) -> None:
        """Keep a running state for the next call."""

    def advance(self, n_tokens: int) -> None:
        """Every layer has read `n_tokens` more: told by the model, once a call."""


class KeyValueCache(NoCache):
    """One layer's keys and values, in a buffer of the full context allocated once."""

    def __init__(self, *, context_length: int) -> None:
        self.context_length = context_length
        self.length = 0
        self._store: KeysAndValues | None = None
        self._fixed: KeysAndValues | None = None
        self._state: State | None = None

    def advance(self, n_tokens: int) -> None:
        """Every layer has read `n_tokens` more: told by the model, once a call."""
        self.length += n_tokens

    def extend(
        self,
        keys: Float[Tensor, "batch heads time d_head"],
        values: Float[Tensor, "batch heads time d_value"],
    ) -> KeysAndValues:
        """All keys and values so far, those just given at the end."""
        if self._store is None:
            self._store = KeysAndValues(self._empty(keys), self._empty(values))
        start, end = self.length, self.length + keys.shape[2]
        self._store.keys[:, :, start:end] = keys
        self._store.values[:, :, start:end] = values
        return KeysAndValues(self._store.keys[:, :, :end], self._store.values[:, :, :end])

    @property
    def room(self) -> KeysAndValues | None:
        """The whole buffers, (batch, heads, context, width); None before there are any.

        Whoever writes what comes at `length` there has to `advance` then.
        """
        return self._store

    def move_to(self, room: KeysAndValues) -> None:
        """Read and write other buffers from now on, which hold the same."""
        self._store = room

    def once(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        """What the first call made."""
        if self._fixed is None:
            self._fixed = make()
        return self._fixed

    def state(self) -> State | None:
        """The running state that was kept last, or None before there is one."""
        return self._state

    def keep(self, state: State) -> None:
        """Keep a running state for the next call."""
        self._state = state

    def reorder(self, rows: Int[Tensor, " batch"]) -> None:
        """Row i becomes what row `rows[i]` was: for a search that drops some and forks others."""
        if self._store is not None:
            self._store = KeysAndValues(*(part[rows] for part in self._store))
        if self._fixed is not None:
            self._fixed = KeysAndValues(*(part[rows] for part in self._fixed))
        if self._state is not None:
            self._state = tuple(part[rows] for part in self._state)

    def _empty(self, tensor: Tensor) -> Tensor:
        batch, heads, _, width = tensor.shape
        room = (batch, heads, self.context_length, width)
        return torch.empty(room, dtype=tensor.dtype, device=tensor.device)
