"""The logits after a growing text, computed from its new tokens or from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.generation.cuda_graphs import Steps, graphed
from pellucid.generation.decoding import Decoder, decoder
from pellucid.generation.finite import finite, finite_later, read_finite
from pellucid.generation.reading import read
from pellucid.model import Encoded, KeysAndValues, KeyValueCache, Transformer

_LOGITS = "the logits of the next token"


def window_start(length: int, context_length: int) -> int:
    """The first token that the model sees of a text of `length` tokens.

    It moves by half a context at a time, so that a cache is rarely rebuilt. It depends on the
    length only, so the model sees the same tokens with and without a cache.
    """
    if length <= context_length:
        return 0
    half = max(1, context_length // 2)
    return -(-(length - context_length) // half) * half


def seen_past_context(context_length: int) -> str:
    """In words, the part of a text that the model sees once it outgrew the context."""
    least = context_length - max(1, context_length // 2) + 1
    return f"the latest {least:,} to {context_length:,} tokens"


class Reader:
    """The logits after a growing text; `start` is the first token that the model sees.

    Args:
        model: the model.
        cached: whether a call reads only the new tokens.
        encoded: the encoder's states of each row's source, for a decoder that reads one.
    """

    def __init__(
        self, model: Transformer, *, cached: bool = True, encoded: Encoded | None = None
    ) -> None:
        self.model = model
        self.cached = cached
        self.encoded = encoded
        self.caches: list[KeyValueCache] | None = None
        self.start = 0
        self._decoder: Decoder | Steps | None = None
        self._looked_for_decoder = encoded is not None

    @torch.inference_mode()
    def next_logits(
        self, ids: Int[Tensor, "rows time"], *, waits: bool = True
    ) -> Float[Tensor, "rows vocab"]:
        """The logits of the next token of each row.

        Args:
            ids: (rows, time), the whole texts.
            waits: whether to check logits on a GPU now; if not, `read` checks them.

        Raises:
            NonFiniteError: they are not finite.
        """
        return (finite if waits else finite_later)(self._logits(ids), _LOGITS)

    def read(self, tokens: Int[Tensor, " rows"], logits: Float[Tensor, "rows vocab"]) -> list[int]:
        """Tokens that were sampled from these logits, as a list.

        Raises:
            NonFiniteError: the logits are not finite.
        """
        return read_finite(tokens, logits, _LOGITS)

    def _logits(self, ids: Int[Tensor, "rows time"]) -> Float[Tensor, "rows vocab"]:
        length = ids.shape[1]
        start = window_start(length, self.model.context_length)
        window_moved, self.start = start != self.start, start
        window_moved |= self._angles_change(length - start)
        self.model.eval()
        if not self.cached:
            return self.model(ids[:, start:], encoded=self.encoded)[:, -1].float()
        if self.caches is None or window_moved:
            self.caches = self.model.new_caches()
        unseen = start + self.caches[0].length
        return read(self.model, self._found_decoder(), ids[:, unseen:], self.caches, self.encoded)

    def logits_ahead(
        self, ids: Sequence[int], guesses: Sequence[int]
    ) -> Float[Tensor, "guesses_and_one vocab"] | None:
        """The logits after a text, and after it with each guess more; one row each.

        The caches count the text's last token; `advance` them for each guess that is right. None if
        that is not one token more than they have, if text and guesses do not fit the window, or
        without compiled code.
        """
        decoder = self._decoder
        if not isinstance(decoder, Decoder) or self.caches is None:
            return None
        length = self.caches[0].length
        is_next = self.start + length == len(ids) - 1
        if not is_next or length + 1 + len(guesses) > self.model.context_length:
            return None
        rooms = [cache.room for cache in self.caches]
        if any(room is None for room in rooms):
            return None
        new = torch.tensor([ids[-1], *guesses])
        lengths = range(length, length + len(new))
        logits = decoder.row_logits(
            new, lengths, [0] * len(new), cast("Sequence[KeysAndValues]", rooms)
        )
        if logits is not None:
            for cache in self.caches:
                cache.advance(1)
        return logits

    @property
    def looks_ahead(self) -> bool:
        """Whether `logits_ahead` can answer: compiled code has read a text."""
        return isinstance(self._decoder, Decoder) and self.caches is not None

    def _angles_change(self, length: int) -> bool:
        """Whether the keys in the caches are wrong now that the model sees `length` tokens."""
        if self.caches is None or not self.caches[0].length:
            return False
        return self.model.stack.positions.changes(self.caches[0].length, length)

    def _found_decoder(self) -> Decoder | Steps | None:
        """Compiled or recorded code for the model, if it exists."""
        if not self._looked_for_decoder:
            find = graphed if self.model.device.type == "cuda" else decoder
            self._decoder, self._looked_for_decoder = find(self.model), True
        return self._decoder

    def take(self, rows: Int[Tensor, " taken"]) -> None:
        """Row i becomes the former row `rows[i]`; the number of rows may change."""
        for cache in self.caches or ():
            cache.reorder(rows)
        if self.encoded is not None:
            padding = self.encoded.padding
            self.encoded = Encoded(
                self.encoded.states[rows], None if padding is None else padding[rows]
            )
