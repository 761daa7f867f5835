"""Exact statistics of attention, without the matrix of all attention weights.

There are two ways. `by_rows` computes the scores of some queries at a time: all its numbers are
exact, for any scores. `by_logsumexp` uses only torch's fused kernel and never has a score:
entropies are exact, and the largest score lies between two bounds.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.maths.attention.attention import soft_cap as capped
from pellucid.maths.attention.attention_vitals import largest_score_bounds

#: About how many scores are in memory at a time: 16 MB in float32.
_SCORES_IN_MEMORY = 2**22


class AttentionStats(NamedTuple):
    """Statistics of each query, each (batch, heads, queries).

    A query that sees no key has no largest score (-inf), and entropies of 0.

    Attributes:
        largest: The largest score.
        entropy: In nats.
        renyi2: Renyi's entropy of order 2, in nats.
        n_visible: How many keys the query sees.
    """

    largest: Tensor
    entropy: Tensor
    renyi2: Tensor
    n_visible: Tensor


class ScoreRule(NamedTuple):
    """How scores come from q k^T: cap(scale q k^T) + bias, over visible keys and a sink.

    None or False leaves a step out. `mask` is True for a visible key; `mask` and `bias` broadcast
    to (batch, heads, queries, keys).

    Attributes:
        scale: the factor of q k^T.
        causal: whether a query sees no later key.
        soft_cap: scores become cap tanh(score / cap).
        sinks: logits that take a share of each query without a key, (heads,).
    """

    scale: float
    causal: bool = False
    mask: Tensor | None = None
    bias: Tensor | None = None
    soft_cap: float | None = None
    sinks: Float[Tensor, " heads"] | None = None

    @property
    def plain(self) -> bool:
        """Whether a fused kernel can do all of it."""
        return self.bias is None and self.soft_cap is None and self.sinks is None


def by_rows(
    q: Float[Tensor, "batch heads queries d_head"],
    k: Float[Tensor, "batch kv_heads keys d_head"],
    scored: ScoreRule,
) -> AttentionStats:
    """Exact statistics for any scores: some queries at a time, in float32 at least.

    Args:
        q: Queries (batch, heads, queries, d_head).
        k: Keys (batch, kv_heads, keys, d_head).
        scored: How scores come from them.
    """
    q, keys = _prepare(q, k)
    batch, heads, queries, _ = q.shape
    n_keys = keys.shape[2]
    rows = max(1, _SCORES_IN_MEMORY // max(1, batch * heads * n_keys))
    parts: list[AttentionStats] = []
    for start in range(0, queries, rows):
        part = slice(start, min(start + rows, queries))
        scores = (q[:, :, part] @ keys.transpose(-1, -2)) * scored.scale
        if scored.soft_cap is not None:
            scores = capped(scores, cap=scored.soft_cap)
        if scored.bias is not None:
            scores = scores + _rows_of(scored.bias, part)
        mask = None if scored.mask is None else _rows_of(scored.mask, part)
        if scored.causal:
            order = torch.arange(part.start, part.stop, device=q.device)[:, None]
            order = torch.arange(n_keys, device=q.device) <= order
            mask = order if mask is None else mask & order
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        parts.append(from_scores(scores, sinks=scored.sinks))
    return AttentionStats(*(torch.cat(part, dim=2) for part in zip(*parts, strict=True)))


def from_scores(
    scores: Float[Tensor, "batch heads queries keys"],
    *,
    sinks: Float[Tensor, " heads"] | None = None,
) -> AttentionStats:
    """Statistics of given scores; a hidden key is -inf, or the lowest number of the dtype."""
    scores = _wide(scores)
    # "not below" instead of "above": a nan counts as visible
    visible = ~(scores < torch.finfo(scores.dtype).min / 2)
    scores = scores.masked_fill(~visible, -torch.inf)
    largest = scores.amax(-1)
    if sinks is not None:
        column = sinks.to(scores)[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat((scores, column), dim=-1)
    blind = ~visible.any(-1)
    # a query without a key gets equal scores, so that nothing below is nan; its result becomes 0
    scores = scores.masked_fill(blind[..., None], 0.0)
    top = scores.amax(-1, keepdim=True)
    # relative to the largest: log Z - mean score would be a small difference of large numbers
    relative = scores - top
    shares = relative.exp()
    total = shares.sum(-1)
    mean = (shares * relative.masked_fill(shares == 0, 0.0)).sum(-1) / total
    entropy = total.log() - mean
    renyi2 = 2 * total.log() - shares.square().sum(-1).log()
    return AttentionStats(
        largest, entropy.masked_fill(blind, 0.0), renyi2.masked_fill(blind, 0.0), visible.sum(-1)
    )


class ScoreBounds(NamedTuple):
    """Statistics of each query from log-sum-exp: the largest score lies between two bounds.

    Attributes:
        lower: of the largest score, (batch, heads, queries).
        upper: of the largest score, (batch, heads, queries).
        entropy: of the weights, in nats, (batch, heads, queries).
        renyi2: Renyi's entropy of order 2, in nats, (batch, heads, queries).
    """

    lower: Tensor
    upper: Tensor
    entropy: Tensor
    renyi2: Tensor


def by_logsumexp(
    q: Float[Tensor, "batch heads queries d_head"],
    k: Float[Tensor, "batch kv_heads keys d_head"],
    scored: ScoreRule,
) -> ScoreBounds:
    """Exact entropies of plain scores, and bounds of the largest score, from fused calls alone.

    H_i = log Z_i - scale q_i attention(q, k, k)_i,  H_2i = 2 log Z_i(s) - log Z_i(2 s)

    Args:
        q: Queries (batch, heads, queries, d_head).
        k: Keys (batch, kv_heads, keys, d_head).
        scored: How scores come from them; it has to be `plain`.
    Fails:
        A difference of large numbers: the error grows with the largest score.
    Source:
        Dao 2023, "FlashAttention-2", section 3.1 (log Z); the identities are in
        `pellucid.maths.attention_entropy`.
    """
    q, keys = _prepare(q, k)
    mask, n_visible = _mask_and_count(q, keys, scored)
    mean_key, log_z = _fused(q, keys, scored, mask)
    log_z2 = _fused(2 * q, keys, scored, mask)[1]
    blind = (n_visible == 0) | ~log_z.isfinite()
    mean_score = scored.scale * (q * mean_key).sum(-1)
    low, high = largest_score_bounds(log_z, 1)
    return ScoreBounds(
        low - n_visible.clamp(min=1).to(log_z.dtype).log(),
        high,
        (log_z - mean_score).masked_fill(blind, 0.0),
        (2 * log_z - log_z2).masked_fill(blind, 0.0),
    )


def _prepare(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys in float32 at least, with as many heads of keys as of queries."""
    q, k = _wide(q), _wide(k)
    groups = q.shape[1] // k.shape[1]
    return q, k.repeat_interleave(groups, dim=1) if groups > 1 else k


def _fused(
    q: Tensor, keys: Tensor, scored: ScoreRule, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """attention(q, k, k), and log Z of each query, from the kernel that keeps it for backward."""
    aten: Any = torch.ops.aten
    causal = scored.causal and mask is None
    if q.device.type == "cpu":
        mixed, log_z = aten._scaled_dot_product_flash_attention_for_cpu(
            q, keys, keys, 0.0, causal, attn_mask=mask, scale=scored.scale
        )
    else:
        mixed, log_z, *_ = aten._scaled_dot_product_efficient_attention(
            q, keys, keys, mask, True, 0.0, causal, scale=scored.scale
        )
    return mixed, log_z[:, :, : q.shape[2]].to(q.dtype)


def _mask_and_count(q: Tensor, keys: Tensor, scored: ScoreRule) -> tuple[Tensor | None, Tensor]:
    """The mask as numbers, if the kernel needs one; and how many keys each query sees."""
    queries, n_keys = q.shape[2], keys.shape[2]
    ramp = torch.arange(queries, device=q.device)
    if scored.mask is None:
        count = (ramp + 1).clamp(max=n_keys) if scored.causal else torch.full_like(ramp, n_keys)
        return None, count
    mask = scored.mask
    if scored.causal:
        mask = mask & (torch.arange(n_keys, device=q.device) <= ramp[:, None])
    shape = (q.shape[0], q.shape[1], queries, n_keys)
    numbers = q.new_zeros(mask.shape).masked_fill(~mask, -torch.inf)
    return numbers.expand(shape), mask.sum(-1).expand(shape[:3])


def _rows_of(x: Tensor, part: slice) -> Tensor:
    """Some queries of a tensor that broadcasts to (batch, heads, queries, keys)."""
    return x if x.ndim < 2 or x.shape[-2] == 1 else x[..., part, :]


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def normalised(stats: AttentionStats, entropy: Tensor) -> Tensor:
    """Entropies over their largest possible value, averaged over queries: (batch, heads).

    Queries that see fewer than two keys do not count: they have no choice.
    """
    has_choice = stats.n_visible > 1
    max_entropy = stats.n_visible.clamp(min=2).to(entropy.dtype).log()
    shares = torch.where(has_choice, entropy / max_entropy, torch.zeros_like(entropy))
    return shares.sum(-1) / has_choice.sum(-1).clamp(min=1)


def fused_call(
    q: Tensor,
    k: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> AttentionStats:
    """Statistics of a call of `F.scaled_dot_product_attention`."""
    q, k = _four(q), _four(k)
    mask, bias = None, None
    if attn_mask is not None:
        mask, bias = (attn_mask, None) if attn_mask.dtype == torch.bool else (None, attn_mask)
    score_scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return by_rows(q, k, ScoreRule(score_scale, causal=is_causal, mask=mask, bias=bias))


def _four(x: Tensor) -> Tensor:
    """(batch, heads, time, d_head), with axes of length 1 in front if there are fewer."""
    return x if x.ndim == 4 else x.reshape(1, -1, *x.shape[-2:])
