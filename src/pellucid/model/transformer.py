"""The language model: token ids in, logits out.

Comes in: (batch, time) token ids. Goes out: final hidden states, or logits. It does not know
losses, text, or who is watching.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.errors import PellucidError
from pellucid.model.blocks import Stack
from pellucid.model.cache import KeyValueCache, NoCache


class Transformer(nn.Module):
    """Token embedding, a stack of blocks, and a head that scores every token of the vocabulary.

    A tied head is the embedding's own matrix. `context_length` is the longest input.
    """

    def __init__(
        self,
        *,
        token_embedding: nn.Embedding,
        decoder: Stack,
        context_length: int,
        tied: bool,
        scaled: bool = False,
    ) -> None:
        super().__init__()
        self.context_length = context_length
        self.token_embedding = token_embedding
        self.decoder = decoder
        rows, d_model = token_embedding.weight.shape
        self.embedding_scale = math.sqrt(d_model) if scaled else 1.0
        self.head = None if tied else nn.Linear(d_model, rows, bias=False)

    @property
    def head_weight(self) -> Float[Tensor, "vocab d_model"]:
        """The matrix that turns hidden states into logits."""
        return self.token_embedding.weight if self.head is None else self.head.weight

    def new_caches(self) -> list[KeyValueCache]:
        """An empty key/value cache for each block."""
        length = self.context_length
        return [KeyValueCache(context_length=length) for _ in self.decoder.blocks]

    def hidden_states(
        self, ids: Int[Tensor, "batch time"], caches: Sequence[NoCache] | None = None
    ) -> Float[Tensor, "batch time d_model"]:
        """Final hidden states; with caches, `ids` continue what the caches hold.

        Raises:
            PellucidError: more tokens than the context holds.
        """
        caches = caches or [NoCache() for _ in self.decoder.blocks]
        length = caches[0].length + ids.shape[1]
        if length > self.context_length:
            raise PellucidError(
                f"{length} tokens were given, but the model's context holds "
                f"{self.context_length}: pass fewer, or cut the text"
            )
        x = self.token_embedding(ids)
        if self.embedding_scale != 1.0:
            x = x * self.embedding_scale
        return self.decoder(x, caches)

    def forward(
        self, ids: Int[Tensor, "batch time"], caches: Sequence[NoCache] | None = None
    ) -> Float[Tensor, "batch time vocab"]:
        """Logits of the token that follows each position."""
        return F.linear(self.hidden_states(ids, caches), self.head_weight)
