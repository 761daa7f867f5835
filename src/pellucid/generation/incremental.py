"""What a model expects after a text that grows, from what is new in it or from all of it."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.generation.cuda_graphs import Steps, graphed
from pellucid.generation.decoding import Decoder, decoder
from pellucid.generation.finite import finite, finite_later, read_finite
from pellucid.model import Encoded, KeyValueCache, Transformer

_LOGITS = "the logits of the next token"


def window_start(length: int, context_length: int) -> int:
    """Where the model's view of a text of `length` tokens starts.

    It moves by half a context at a time, so that a cache is rebuilt rarely; it depends on the
    length alone, so that with and without a cache the same tokens are seen.
    """
    if length <= context_length:
        return 0
    half = max(1, context_length // 2)
    return -(-(length - context_length) // half) * half


def seen_past_context(context_length: int) -> str:
    """What the model sees of a text that outgrew its context, in words."""
    least = context_length - max(1, context_length // 2) + 1
    return f"the latest {least:,} to {context_length:,} tokens"


class Reader:
    """The logits after a growing text; `start` is where the model's view of it begins.

    `encoded` is what the encoder made of each row's source, for a decoder that looks at one. With
    `cached` a call costs what is new in the text, and a source is turned into keys and values once.
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
        """The logits of the token after each row, where the view moved from all that it shows.

        Without `waits`, those on a GPU are looked at when `read` reads what was chosen from them.

        Raises:
            NonFiniteError: they are not finite.
        """
        return (finite if waits else finite_later)(self._logits(ids), _LOGITS)

    def read(self, chosen: Int[Tensor, " rows"], logits: Float[Tensor, "rows vocab"]) -> list[int]:
        """The tokens that were chosen from these logits, on the host.

        Raises:
            NonFiniteError: the logits are not finite.
        """
        return read_finite(chosen, logits, _LOGITS)

    def _logits(self, ids: Int[Tensor, "rows time"]) -> Float[Tensor, "rows vocab"]:
        length = ids.shape[1]
        start = window_start(length, self.model.context_length)
        moved, self.start = start != self.start, start
        if self.caches and not moved and (logits := self._decoded(ids)) is not None:
            return logits
        self.model.eval()
        if not self.cached:
            return self.model(ids[:, start:], encoded=self.encoded)[:, -1].float()
        if self.caches is None or moved:
            self.caches = self.model.new_caches()
        unseen = start + self.caches[0].length
        hidden = self.model.hidden_states(ids[:, unseen:], self.caches, encoded=self.encoded)
        return self.model.logits(hidden[:, -1]).float()

    def _decoded(self, ids: Tensor) -> Tensor | None:
        """The logits by compiled or recorded code: where there is any, and one token is new."""
        if self.caches is None or ids.shape[1] - self.start - self.caches[0].length != 1:
            return None
        if not self._looked_for_decoder:
            find = graphed if self.model.device.type == "cuda" else decoder
            self._decoder, self._looked_for_decoder = find(self.model), True
        return None if self._decoder is None else self._decoder.logits(ids[:, -1], self.caches)

    def take(self, rows: Int[Tensor, " taken"]) -> None:
        """Row i becomes what row `rows[i]` was; there may be more rows than before, or fewer."""
        for cache in self.caches or ():
            cache.reorder(rows)
        if self.encoded is not None:
            padding = self.encoded.padding
            self.encoded = Encoded(
                self.encoded.states[rows], None if padding is None else padding[rows]
            )
