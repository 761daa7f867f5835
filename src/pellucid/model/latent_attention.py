"""Multi-head latent attention: keys and values of all heads from one small vector per token."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.model.attention import join_heads, split_heads
from pellucid.model.cache import KeysAndValues, NoCache
from pellucid.model.dropout import Drops
from pellucid.model.facts import LatentAttentionFacts
from pellucid.model.positions import Positions
from pellucid.model.precision import for_products
from pellucid.model.scores import Scoring, gather
from pellucid.model.views import View


class LatentHeads(NamedTuple):
    """The number of heads, and the features of each.

    `d_plain` features of a query and key have no positions, `d_rotated` more have; the latter are
    the same in the keys of all heads.
    """

    n_heads: int
    d_plain: int
    d_rotated: int
    d_value: int


class Latent(NamedTuple):
    """The width of a latent vector, and its norm."""

    width: int
    norm: nn.Module


class LatentAttention(Drops, nn.Module):
    """Softmax attention whose keys and values are made from a latent vector of each token.

    c = norm(C x),  r = rotate(R x);  k_h = [K_h c, r],  v_h = V_h c,  q_h = [a_h, rotate(b_h)]
    with [a_h, b_h] = Q_h x, or Q_h norm(D x) with a latent of the queries. A cache keeps c and r.

    A few queries after many tokens read the latents themselves: a_h K_h c = (K_h^T a_h) c, and the
    sum of w V_h c is V_h times the sum of w c. So no keys and values are formed.

    Source:
        DeepSeek-AI 2024, "DeepSeek-V2", eq. 9-19 and appendix C.
    See also:
        `pellucid.maths.latent_attention`, against which it is tested.
    """

    def __init__(
        self,
        *,
        d_model: int,
        heads: LatentHeads,
        latent: Latent,
        query_latent: Latent | None = None,
        latent_bias: bool = False,
        out_bias: bool = False,
        scale: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.n_heads, d_plain, self.d_rotated, d_value = heads
        self.d_latent = latent.width
        d_head = d_plain + self.d_rotated
        self.scale = 1 / math.sqrt(d_head) if scale is None else scale
        self.dropout = dropout
        #: whether torch's fused kernel computes the scores, if it can
        self.fused = True
        query_inputs = d_model
        self.query_latent: nn.Module | None = None
        self.query_latent_norm: nn.Module | None = None
        if query_latent is not None:
            query_inputs = query_latent.width
            self.query_latent = nn.Linear(d_model, query_inputs, bias=latent_bias)
            self.query_latent_norm = query_latent.norm
        self.query = nn.Linear(query_inputs, self.n_heads * d_head, bias=False)
        self.latent = nn.Linear(d_model, latent.width, bias=latent_bias)
        self.latent_norm = latent.norm
        self.rotated_key = nn.Linear(d_model, self.d_rotated, bias=latent_bias)
        self.key = nn.Linear(latent.width, self.n_heads * d_plain, bias=False)
        self.value = nn.Linear(latent.width, self.n_heads * d_value, bias=False)
        self.output = nn.Linear(self.n_heads * d_value, d_model, bias=out_bias)

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
            cache: latents and rotated keys of earlier tokens.
        """
        x = for_products(x)
        q = self._queries(x, positions, view)
        rotated = positions.rotate(split_heads(self.rotated_key(x), 1), view)
        latents = self.latent_norm(self.latent(x))[:, None]
        token = torch.cat((latents.to(rotated.dtype), rotated), dim=-1)
        token_vectors = cache.extend(token, token[..., :0]).keys
        if self._reads_latents(q.shape[2], token_vectors.shape[2]):
            mixed = self._mix_latents(q, token_vectors, positions, view)
        else:
            read = cache.expand(self._keys_and_values(token_vectors))
            mixed = gather(q, read, self.scoring(), positions, view)
        return self.output(join_heads(mixed))

    def scoring(self) -> Scoring:
        """How scores are computed now: without dropout in evaluation mode."""
        dropout = self.dropout if self.training else 0.0
        return Scoring(self.scale, dropout=dropout, fused=self.fused)

    def _queries(self, x: Tensor, positions: Positions, view: View) -> Tensor:
        if self.query_latent is not None and self.query_latent_norm is not None:
            x = self.query_latent_norm(self.query_latent(x))
        q = split_heads(self.query(x), self.n_heads)
        d_plain = self.heads.d_plain
        return torch.cat((q[..., :d_plain], positions.rotate(q[..., d_plain:], view)), dim=-1)

    def _keys_and_values(self, token_vectors: Tensor) -> KeysAndValues:
        latents, rotated = (
            token_vectors[:, 0, :, : self.d_latent],
            token_vectors[..., self.d_latent :],
        )
        keys = split_heads(self.key(latents), self.n_heads)
        values = split_heads(self.value(latents), self.n_heads)
        rotated = rotated.expand(-1, self.n_heads, -1, -1)
        return KeysAndValues(torch.cat((keys, rotated.to(keys.dtype)), dim=-1), values)

    def _reads_latents(self, n_queries: int, n_keys: int) -> bool:
        """Whether reading the latents is less work, and the matrices are what they seem."""
        if n_queries == n_keys or not (_is_plain(self.key) and _is_plain(self.value)):
            return False
        _, d_plain, d_rotated, d_value = self.heads
        product = self.d_latent * (d_plain + d_value)
        on_latents = n_queries * (product + n_keys * (2 * self.d_latent + d_rotated))
        expanded = n_keys * (product + n_queries * (d_plain + d_rotated + d_value))
        return on_latents < expanded

    def _mix_latents(
        self, q: Tensor, token_vectors: Tensor, positions: Positions, view: View
    ) -> Tensor:
        """The heads' outputs: every head reads the latents, as the keys and as the values."""
        shape = (self.n_heads, -1, self.d_latent)
        to_latent = self.key.weight.to(q.dtype).view(shape)
        from_latent = self.value.weight.to(q.dtype).view(shape)
        d_plain = self.heads.d_plain
        plain, rotated = q[..., :d_plain], q[..., d_plain:]
        q = torch.cat((plain @ to_latent, rotated), dim=-1)
        read = KeysAndValues(token_vectors, token_vectors[..., : self.d_latent])
        return gather(q, read, self.scoring(), positions, view) @ from_latent.mT

    def facts(self) -> LatentAttentionFacts:
        """How it scores, and what it keeps of a token."""
        has_query_latent = self.query_latent is not None
        return LatentAttentionFacts(
            n_heads=self.n_heads,
            d_head=self.heads.d_plain + self.d_rotated,
            d_rotated=self.d_rotated,
            d_value=self.heads.d_value,
            d_latent=self.d_latent,
            scale=self.scale,
            dropout=self.dropout,
            query_latent="query_latent" if has_query_latent else None,
            query_latent_norm="query_latent_norm" if has_query_latent else None,
        )


def _is_plain(layer: nn.Module) -> bool:
    """Whether a linear layer is its matrix alone: no adapter, no computed matrix, no hook."""
    untyped = cast("Any", layer)
    hooks = (*untyped._forward_pre_hooks, *untyped._forward_hooks)
    return type(layer) is nn.Linear and not hooks
