"""Attention: each token gathers from the tokens it may see.

Comes in: hidden states, the stack's positions, one layer's cache. Goes out: the same shape. It does
not know which scheme of positions it calls, nor whether anything is cached or watched.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.model.cache import NoCache
from pellucid.model.positions import Positions
from pellucid.model.precision import for_products


class MultiHeadAttention(nn.Module):
    """Causal scaled dot-product attention in heads; fewer key/value heads make it grouped.

    softmax(q k^T / sqrt(d_head) + mask) v, in torch's fused kernel: the weights are not formed.

    Source:
        Vaswani et al. 2017, "Attention Is All You Need", eq. 1; Ainslie et al. 2023, "GQA";
        Henry et al. 2020, "Query-Key Normalization for Transformers" (norms on q and k).
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        n_kv_heads: int,
        d_head: int,
        qkv_bias: bool,
        out_bias: bool,
        query_norm: nn.Module | None = None,
        key_norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.dropout = dropout
        self.query = nn.Linear(d_model, n_heads * d_head, bias=qkv_bias)
        self.key = nn.Linear(d_model, n_kv_heads * d_head, bias=qkv_bias)
        self.value = nn.Linear(d_model, n_kv_heads * d_head, bias=qkv_bias)
        self.query_norm = query_norm or nn.Identity()
        self.key_norm = key_norm or nn.Identity()
        self.output = nn.Linear(n_heads * d_head, d_model, bias=out_bias)

    def forward(
        self, x: Float[Tensor, "batch time d_model"], positions: Positions, cache: NoCache
    ) -> Float[Tensor, "batch time d_model"]:
        """What each token gathers from itself and those before it."""
        x, start = for_products(x), cache.length
        q = self.query_norm(_heads(self.query(x), self.n_heads))
        k = self.key_norm(_heads(self.key(x), self.n_kv_heads))
        v = _heads(self.value(x), self.n_kv_heads)
        q, k = positions.rotate(q, start), positions.rotate(k, start)
        keys, values = cache.extend(k, v)
        n_queries = q.shape[2]
        mixed = F.scaled_dot_product_attention(
            q,
            keys,
            values,
            attn_mask=_mask(n_queries, start, q.device),
            is_causal=start == 0 and n_queries > 1,
            dropout_p=self.dropout if self.training else 0.0,
            enable_gqa=self.n_kv_heads != self.n_heads,
        )
        return self.output(_joined(mixed))


def _heads(x: Tensor, n_heads: int) -> Tensor:
    """(batch, time, heads * d_head) -> (batch, heads, time, d_head)."""
    batch, time, width = x.shape
    return x.view(batch, time, n_heads, width // n_heads).transpose(1, 2)


def _joined(x: Tensor) -> Tensor:
    """(batch, heads, time, d_head) -> (batch, time, heads * d_head)."""
    return x.transpose(1, 2).flatten(2)


def _mask(n_queries: int, start: int, device: torch.device) -> Tensor | None:
    """Which keys each query sees; None where the kernel's own causal mask, or none, is right."""
    if start == 0 or n_queries == 1:
        return None
    seen = torch.arange(start + n_queries, device=device)
    return seen <= torch.arange(start, start + n_queries, device=device)[:, None]
