"""The state that a layer keeps between calls, so that a new token needs only one new row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class KeysAndValues(NamedTuple):
    """The keys and values that queries can see.

    Attributes:
        keys: (batch, heads, keys, d_head).
        values: (batch, heads, keys, d_value).
    """

    keys: Float[Tensor, "batch heads time d_head"]
    values: Float[Tensor, "batch heads time d_value"]


#: The state of a layer without keys: tensors with the batch first.
State = tuple[Tensor, ...]


class NoCache:
    """No earlier tokens, and nothing is kept."""

    #: The number of earlier tokens.
    length: int = 0

    def extend(
        self,
        keys: Float[Tensor, "batch heads time d_head"],
        values: Float[Tensor, "batch heads time d_value"],
    ) -> KeysAndValues:
        """All keys and values so far: the new ones."""
        return KeysAndValues(keys, values)

    def expand(self, read: KeysAndValues) -> KeysAndValues:
        """Keys and values that a layer makes anew from what it keeps; observers listen here."""
        return read

    def compute_once(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        """Keys and values that do not change from call to call, such as an encoder's."""
        return make()

    def state(self) -> State | None:
        """The state of the last `keep`, or None."""
        return None

    def keep(self, state: State) -> None:
        """Keep a state for the next call."""

    def advance(self, n_tokens: int) -> None:
        """Count `n_tokens` more; the model calls it once per call, after all layers."""


class KeyValueCache(NoCache):
    """One layer's keys and values, in buffers for the full context that are allocated once."""

    def __init__(self, *, context_length: int) -> None:
        self.context_length = context_length
        self.length = 0
        self._store: KeysAndValues | None = None
        self._fixed: KeysAndValues | None = None
        self._state: State | None = None

    def advance(self, n_tokens: int) -> None:
        """Count `n_tokens` more; the model calls it once per call, after all layers."""
        self.length += n_tokens

    def extend(
        self,
        keys: Float[Tensor, "batch heads time d_head"],
        values: Float[Tensor, "batch heads time d_value"],
    ) -> KeysAndValues:
        """All keys and values so far, the new ones at the end."""
        if self._store is None:
            self._store = KeysAndValues(self._empty(keys), self._empty(values))
        start, end = self.length, self.length + keys.shape[2]
        self._store.keys[:, :, start:end] = keys
        self._store.values[:, :, start:end] = values
        if self._store.keys.dtype != keys.dtype:  # the buffers are wider than products are
            if start == 0:
                return KeysAndValues(keys, values)
            return KeysAndValues(*(part[:, :, :end].to(keys.dtype) for part in self._store))
        return KeysAndValues(self._store.keys[:, :, :end], self._store.values[:, :, :end])

    @property
    def room(self) -> KeysAndValues | None:
        """The whole buffers, (batch, heads, context, width); None before the first `extend`.

        If you write to them at `length`, call `advance` afterwards.
        """
        return self._store

    def move_to(self, room: KeysAndValues) -> None:
        """Use other buffers with the same content from now on."""
        self._store = room

    def compute_once(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        """The result of the first call."""
        if self._fixed is None:
            self._fixed = make()
        return self._fixed

    def state(self) -> State | None:
        """The state of the last `keep`, or None."""
        return self._state

    def keep(self, state: State) -> None:
        """Keep a state for the next call."""
        self._state = state

    def reorder(self, rows: Int[Tensor, " batch"]) -> None:
        """Row i becomes the former row `rows[i]`, for a search that drops and copies rows."""
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
