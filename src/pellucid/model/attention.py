"""Softmax attention in heads: self-attention, and cross-attention to an encoder."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple, TypedDict, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from pellucid.model.cache import KeysAndValues, NoCache
from pellucid.model.disentangled import NO_DISTANCES, DistanceProjections
from pellucid.model.dropout import Drops
from pellucid.model.facts import SoftmaxAttentionFacts
from pellucid.model.positions import NoPositions, Positions
from pellucid.model.precision import for_products
from pellucid.model.scores import Scoring, gather
from pellucid.model.views import View

#: Whether each feature of a head's output has a gate of its own, or each head has one.
GateOver = Literal["features", "heads"]

#: For cross-attention: positions in one text mean nothing in another.
_NO_ORDER = NoPositions()


class Encoded(NamedTuple):
    """The encoder's `states` of a text (batch, source, d_model), and which of its tokens are real:
    `padding` (batch, source), or None if all are.
    """

    states: Float[Tensor, "batch source d_model"]
    padding: Bool[Tensor, "batch source"] | None = None


class BatchContext(TypedDict, total=False):
    """What a model can know about a batch beyond its token ids."""

    #: the encoder's states of the other text, for a decoder that reads one
    encoded: Encoded | None
    #: True where a token is real, including the tokens in the caches
    padding: Bool[Tensor, "batch keys"] | None
    #: the number of each token's document; no token sees another document
    documents: Int[Tensor, "batch time"] | None
    #: how many tokens at the start of each row all others can see
    prefix: Int[Tensor, " batch"] | None
    #: the segment of each token; 0 by default
    segments: Int[Tensor, "batch time"] | None


class Heads(NamedTuple):
    """`n_heads` of queries, `n_kv_heads` of keys and values; `d_value` is `d_head` by default."""

    n_heads: int
    n_kv_heads: int
    d_head: int
    d_value: int | None = None


class Scores(NamedTuple):
    """How scores are computed and used; `scale` is 1 / sqrt(d_head) by default.

    `soft_cap`, `sinks` and `dropout` are as in `config.MultiHead`.
    """

    scale: float | None = None
    soft_cap: float | None = None
    sinks: bool = False
    dropout: float = 0.0


PLAIN_SCORES = Scores()


class QueryKeyNorms(NamedTuple):
    """Norms of `query` and `key`, of a head or `over_all_heads`; `after_rotation` or before."""

    query: nn.Module
    key: nn.Module
    over_all_heads: bool = False
    after_rotation: bool = False


class _Attention(Drops, nn.Module):
    """The common part of self- and cross-attention: projections, and how to score."""

    def __init__(
        self,
        *,
        d_model: int,
        heads: Heads,
        qkv_bias: bool | tuple[bool, bool, bool],
        out_bias: bool,
        scores: Scores = PLAIN_SCORES,
    ) -> None:
        super().__init__()
        biases = (qkv_bias,) * 3 if isinstance(qkv_bias, bool) else qkv_bias
        n_heads, n_kv_heads, d_head, d_value = heads
        d_value = d_head if d_value is None else d_value
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.scale = 1 / math.sqrt(d_head) if scores.scale is None else scores.scale
        self.soft_cap, self.dropout = scores.soft_cap, scores.dropout
        #: whether torch's fused kernel computes the scores, if it can
        self.fused = True
        self.sinks = nn.Parameter(torch.zeros(n_heads)) if scores.sinks else None
        self.query = nn.Linear(d_model, n_heads * d_head, bias=biases[0])
        self.key = nn.Linear(d_model, n_kv_heads * d_head, bias=biases[1])
        self.value = nn.Linear(d_model, n_kv_heads * d_value, bias=biases[2])
        self.output = nn.Linear(n_heads * d_value, d_model, bias=out_bias)

    def scoring(self) -> Scoring:
        """How scores are computed now: without dropout in evaluation mode."""
        dropout = self.dropout if self.training else 0.0
        return Scoring(self.scale, self.soft_cap, self.sinks, dropout, self.fused)

    def _facts(self, keys_from: Literal["same_text", "encoder"]) -> SoftmaxAttentionFacts:
        return SoftmaxAttentionFacts(
            keys_from=keys_from,
            n_heads=self.n_heads,
            n_kv_heads=self.n_kv_heads,
            d_head=self.query.out_features // self.n_heads,
            d_value=self.value.out_features // self.n_kv_heads,
            scale=self.scale,
            soft_cap=self.soft_cap,
            sinks=None if self.sinks is None else "sinks",
            dropout=self.dropout,
        )


class MultiHeadAttention(_Attention):
    """Scaled dot-product self-attention in heads; fewer key/value heads make it grouped.

    softmax(q k^T / sqrt(d_head) + mask) v. `window`: each query sees that many keys at most. Norms
    of queries and keys are over one head, or over all at once. `clip` bounds queries, keys and
    values. `output_gate`: sigmoid(G x) multiplies the heads' outputs, with a row of G for each
    feature or head. `distances` projects the vectors of distances, if content has its own matrices.

    Source:
        Vaswani et al. 2017, "Attention Is All You Need", eq. 1; Ainslie et al. 2023, "GQA";
        Henry et al. 2020, "Query-Key Normalization for Transformers" (norms on q and k);
        Beltagy et al. 2020, "Longformer" (windows); Gemma Team 2024, "Gemma 2" (soft caps);
        Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks"; Qiu et al.
        2025, "Gated Attention for Large Language Models", eq. 5 (gates).
    """

    def __init__(
        self,
        *,
        d_model: int,
        heads: Heads,
        qkv_bias: bool | tuple[bool, bool, bool],
        out_bias: bool,
        scores: Scores = PLAIN_SCORES,
        norms: QueryKeyNorms | None = None,
        window: int | None = None,
        clip: float | None = None,
        output_gate: GateOver | None = None,
        distances: DistanceProjections = NO_DISTANCES,
    ) -> None:
        super().__init__(
            d_model=d_model, heads=heads, scores=scores, qkv_bias=qkv_bias, out_bias=out_bias
        )
        self.position_query, self.position_key = distances
        norms = norms or QueryKeyNorms(nn.Identity(), nn.Identity())
        self.query_norm, self.key_norm = norms.query, norms.key
        self.norms_over_all_heads = norms.over_all_heads
        self.norms_after_rotation = norms.after_rotation
        self.window = window
        self.clip = clip
        self.gate_over: GateOver = output_gate or "features"
        rows = self.output.in_features if output_gate == "features" else heads.n_heads
        has_bias = cast("nn.Parameter | None", self.query.bias) is not None
        self.output_gate = None if output_gate is None else nn.Linear(d_model, rows, bias=has_bias)

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        positions: Positions,
        view: View,
        cache: NoCache,
    ) -> Float[Tensor, "batch time d_model"]:
        """Each token's mean of the values that it sees.

        Args:
            x: (batch, time, d_model). positions: of the stack. view: what each token sees.
            cache: keys and values of earlier tokens.
        """
        x = for_products(x)
        positions = positions.in_layer(self)
        q = self._compared(self.query(x), self.query_norm, self.n_heads, positions, view)
        k = self._compared(self.key(x), self.key_norm, self.n_kv_heads, positions, view)
        v = self._clipped(split_heads(self.value(x), self.n_kv_heads))
        mixed = gather(q, cache.extend(k, v), self.scoring(), positions, view, self.window)
        joined = join_heads(mixed)
        if self.output_gate is not None:
            gates = torch.sigmoid(self.output_gate(x))
            joined = joined * gates.repeat_interleave(joined.shape[-1] // gates.shape[-1], dim=-1)
        return self.output(joined)

    def _compared(
        self, x: Tensor, norm: nn.Module, n_heads: int, positions: Positions, view: View
    ) -> Tensor:
        """Queries or keys as the scores compare them: normalised, clipped and rotated."""
        if not self.norms_after_rotation:
            return positions.rotate(self._clipped(self._normed(x, norm, n_heads)), view)
        rotated = positions.rotate(self._clipped(split_heads(x, n_heads)), view)
        return self._normed(join_heads(rotated), norm, n_heads)

    def position_queries(
        self, vectors: Float[Tensor, "rows d_model"]
    ) -> Float[Tensor, "heads rows d_head"]:
        """The queries of vectors of distances."""
        return self._of_distances(self.position_query, self.query, vectors, self.n_heads)

    def position_keys(
        self, vectors: Float[Tensor, "rows d_model"]
    ) -> Float[Tensor, "kv_heads rows d_head"]:
        """The keys of vectors of distances."""
        return self._of_distances(self.position_key, self.key, vectors, self.n_kv_heads)

    def _of_distances(
        self, projection: nn.Module | None, of_content: nn.Module, vectors: Tensor, n_heads: int
    ) -> Tensor:
        # without one of its own, `forward` itself: hooks of content's projection see content only
        project = of_content.forward if projection is None else projection
        return split_heads(project(for_products(vectors)[None]), n_heads)[0]

    def _normed(self, x: Tensor, norm: nn.Module, n_heads: int) -> Tensor:
        if self.norms_over_all_heads:
            return split_heads(norm(x), n_heads)
        return norm(split_heads(x, n_heads))

    def _clipped(self, x: Tensor) -> Tensor:
        return x if self.clip is None else x.clamp(-self.clip, self.clip)

    def facts(self) -> SoftmaxAttentionFacts:
        """How it scores, how far it looks, and where its norms are."""
        return replace(
            self._facts("same_text"),
            window=self.window,
            query_norm="query_norm",
            key_norm="key_norm",
            norms_over_all_heads=self.norms_over_all_heads,
            position_query=None if self.position_query is None else "position_query",
            position_key=None if self.position_key is None else "position_key",
            norms_after_rotation=self.norms_after_rotation,
            clip=self.clip,
            output_gate=None if self.output_gate is None else "output_gate",
            gate_over=self.gate_over,
        )


class CrossAttention(_Attention):
    """Attention of a decoder's tokens to an encoder's states of another text.

    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.2.3.
    """

    def forward(
        self, x: Float[Tensor, "batch time d_model"], encoded: Encoded, cache: NoCache
    ) -> Float[Tensor, "batch time d_model"]:
        """Each token's mean of the values of the encoder's states.

        Args:
            x: (batch, time, d_model). encoded: the encoder's states. cache: their keys and values,
            once they are computed.
        """

        def read() -> KeysAndValues:
            states = for_products(encoded.states)
            return KeysAndValues(
                split_heads(self.key(states), self.n_kv_heads),
                split_heads(self.value(states), self.n_kv_heads),
            )

        q = split_heads(self.query(for_products(x)), self.n_heads)
        padding = encoded.padding
        mask = None if padding is None else padding[:, None, None, :]
        view = View(start=0, causal=False, mask=mask)
        mixed = gather(q, cache.compute_once(read), self.scoring(), _NO_ORDER, view)
        return self.output(join_heads(mixed))

    def facts(self) -> SoftmaxAttentionFacts:
        """How it scores."""
        return self._facts("encoder")


def split_heads(x: Float[Tensor, "batch time width"], n_heads: int) -> Tensor:
    """(batch, time, heads * d_head) -> (batch, heads, time, d_head)."""
    batch, time, width = x.shape
    return x.view(batch, time, n_heads, width // n_heads).transpose(1, 2)


def join_heads(x: Float[Tensor, "batch heads time d_head"]) -> Tensor:
    """(batch, heads, time, d_head) -> (batch, time, heads * d_head)."""
    return x.transpose(1, 2).flatten(2)
