"""Texts that join and leave while others are written: continuous batching.

All texts share one buffer of keys and values for each layer; each has a slot in it, and its own
length. A new text is read at once (`pellucid.generation.reading`). Then compiled code takes one
further token of every text through all layers in one call, and reads each weight once for all of
them. Its numbers for a text do not depend on the others, so each text is the same bits as alone.

If only the model itself can decode (`pellucid.generation.decoding`), it takes one text after
another at each token: also the same bits as alone, but not faster than one text at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.generation.decoding import decoder
from pellucid.generation.reading import read
from pellucid.model import Encoded, KeysAndValues, KeyValueCache, Transformer


@dataclass(slots=True, eq=False)
class OpenText:
    """A text that is being written: its slot, its caches, and how many tokens they hold.

    Attributes:
        slot: its row in the batch.
        caches: keys and values, one cache for each layer.
        encoded: the encoder's states of an encoder-decoder.
    """

    slot: int
    caches: list[KeyValueCache]
    encoded: Encoded | None = None

    @property
    def length(self) -> int:
        """How many tokens the model has read."""
        return self.caches[0].length


class ContinuousBatch:
    """Up to `capacity` texts that a model writes together, each of its own length.

    Args:
        model: a model with a decoder.
        capacity: the most texts at a time.
    """

    def __init__(self, model: Transformer, *, capacity: int) -> None:
        self.model = model
        self._capacity = capacity
        self._free = list(reversed(range(capacity)))
        self._decoder = decoder(model)
        self._rooms: list[KeysAndValues] | None = None

    @property
    def is_compiled(self) -> bool:
        """Whether texts are really written together, by compiled code."""
        return self._decoder is not None

    @property
    def n_free(self) -> int:
        """How many more texts can join."""
        return len(self._free)

    @torch.inference_mode()
    def join(
        self, ids: Sequence[int], encoded: Encoded | None = None
    ) -> tuple[OpenText, Float[Tensor, "one vocab"]]:
        """Read a new text; returns it with the logits of its next token.

        Args:
            ids: its tokens, at least one and at most as many as the context holds.
            encoded: the encoder's states of its source, for an encoder-decoder.

        Raises:
            PellucidError: the batch is full, or the model refuses the tokens.
        """
        if not self._free:
            raise PellucidError(f"the batch already has {self._capacity} texts: wait for one")
        self.model.eval()
        text = OpenText(self._free[-1], self.model.new_caches(), encoded)
        self._give_room(text)
        logits = self._read(text, ids)
        self._share_room(text)
        self._free.pop()
        return text, logits

    @torch.inference_mode()
    def step(
        self, texts: Sequence[OpenText], tokens: Sequence[int]
    ) -> Float[Tensor, "texts vocab"]:
        """Read the next token of each text; the logits of the one after it.

        Raises:
            PellucidError: a text fills the context.
        """
        if self._decoder is not None and self._rooms is not None:
            ids = torch.tensor(list(tokens))
            lengths, slots = [text.length for text in texts], [text.slot for text in texts]
            logits = self._decoder.row_logits(ids, lengths, slots, self._rooms)
            if logits is not None:
                for text in texts:
                    for cache in text.caches:
                        cache.advance(1)
                return logits
        pairs = zip(texts, tokens, strict=True)
        return torch.cat([self._read(text, [token]) for text, token in pairs])

    def remove(self, text: OpenText) -> None:
        """End a text; its slot is free for the next one."""
        self._free.append(text.slot)
        text.caches = []

    def _read(self, text: OpenText, ids: Sequence[int]) -> Tensor:
        batch = torch.tensor([list(ids)], device=self.model.device)
        return read(self.model, self._decoder, batch, text.caches, text.encoded)

    def _give_room(self, text: OpenText) -> None:
        """Let the caches of a text write into its slot, once the shape of the buffers is known."""
        for cache, room in zip(text.caches, self._rooms or (), strict=False):
            cache.move_to(_slot_of(room, text.slot))

    def _share_room(self, text: OpenText) -> None:
        """Make the buffers after the first text; compiled code alone has a use for them."""
        if self._rooms is not None or self._decoder is None:
            return
        self._rooms = []
        for cache in text.caches:
            first_room = cache.room
            # compiled code has no instruction for other kinds of state
            assert first_room is not None
            room = KeysAndValues(*(p.new_empty(self._capacity, *p.shape[1:]) for p in first_room))
            slot = _slot_of(room, text.slot)
            for target, source in zip(slot, first_room, strict=True):
                target[:, :, : cache.length] = source[:, :, : cache.length]
            cache.move_to(slot)
            self._rooms.append(room)


def _slot_of(room: KeysAndValues, slot: int) -> KeysAndValues:
    return KeysAndValues(room.keys[slot : slot + 1], room.values[slot : slot + 1])
