"""Scores, softmax, weighted sum: the core of attention, in torch's fused kernel if it can."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from pellucid.model.cache import KeysAndValues
from pellucid.model.dropout import dropout
from pellucid.model.positions import Positions
from pellucid.model.precision import as_given, wide
from pellucid.model.views import View, distances
from pellucid.model.windows import in_blocks, joined, latest


class Scoring(NamedTuple):
    """How scores are computed and used."""

    scale: float
    soft_cap: float | None = None
    sinks: Float[Tensor, " heads"] | None = None
    dropout: float = 0.0
    #: in torch's fused kernel, if it can; else as matrix products, which can be faster
    fused: bool = True


def gather(
    q: Float[Tensor, "batch heads queries d_head"],
    read: KeysAndValues,
    scoring: Scoring,
    positions: Positions,
    view: View,
    window: int | None = None,
) -> Float[Tensor, "batch heads queries d_value"]:
    """softmax(cap(scale q k^T) + bias + mask) v; a query that sees no key gets zero.

    Args:
        q: (batch, heads, queries, d_head).
        read: keys and values, which may have fewer heads.
        scoring: how scores are computed.
        positions: a scheme that may add to scores or values.
        view: what each query sees.
        window: each query sees keys less than so many tokens away; None for all.

    Source:
        Vaswani et al. 2017, "Attention Is All You Need", eq. 1.
    See also:
        `pellucid.maths.attention.attention`, against which it is tested.
    """
    bias = positions.bias(q, read.keys, view, scoring.scale)
    plain = scoring.soft_cap is None and scoring.sinks is None and not positions.adds_values
    time, n_keys = q.shape[2], read.keys.shape[2]
    if plain and bias is None and view.mask is None and window is not None and n_keys > window:
        if time == 1:
            return _fused(q, latest(read, window), scoring, None, view)
        if view.causal:
            blocks = in_blocks(q, read, window)
            block_view = View(start=0, causal=False, mask=blocks.mask)
            mixed = _fused(blocks.q, blocks.read, scoring, None, block_view)
            return joined(mixed, q.shape[0], time)
    view = view.in_window(window, time, q.device)
    if plain and not scoring.fused and bias is None and view.mask is None:
        return _products(q, read, scoring, view)
    if plain:
        return _fused(q, read, scoring, bias, view)
    return _explicit(q, read, scoring, bias, positions, view)


def _fused(
    q: Tensor, read: KeysAndValues, scoring: Scoring, bias: Tensor | None, view: View
) -> Tensor:
    """In torch's fused kernel, which never forms the weights."""
    visible_mask = view.mask if bias is None else visible(view, q)
    mask = None if bias is None else bias.to(q.dtype)
    if visible_mask is not None:
        # as numbers: the kernel's own conversion of a boolean mask takes three times as long
        mask = q.new_zeros(visible_mask.shape) if mask is None else mask
        mask = mask.masked_fill(~visible_mask, -torch.inf)
    return F.scaled_dot_product_attention(
        q,
        read.keys,
        read.values,
        attn_mask=mask,
        is_causal=view.causal and mask is None,
        dropout_p=scoring.dropout,
        scale=scoring.scale,
        enable_gqa=read.keys.shape[1] != q.shape[1],
    )


def _products(q: Tensor, read: KeysAndValues, scoring: Scoring, view: View) -> Tensor:
    """As matrix products in the dtype of `q`; they form time x time weights per head.

    On a CPU, the fused kernel's backward pass is slower than these products up to about a thousand
    keys.
    """
    groups = q.shape[1] // read.keys.shape[1]
    keys, values = (part if groups == 1 else part.repeat_interleave(groups, dim=1) for part in read)
    scores = (q * scoring.scale) @ keys.transpose(-1, -2)
    if view.causal:
        is_later = distances(view.start, q.shape[2], q.device) > 0
        scores = scores + q.new_zeros(is_later.shape).masked_fill(is_later, -torch.inf)
    with as_given(q.device):  # autocast would compute the softmax in float32, in twice the time
        weights = torch.softmax(scores, dim=-1)
    return dropout(weights, scoring.dropout) @ values


def _explicit(
    q: Tensor,
    read: KeysAndValues,
    scoring: Scoring,
    bias: Tensor | None,
    positions: Positions,
    view: View,
) -> Tensor:
    """Step by step, for caps, sinks and vectors added to the values: no fused kernel has them."""
    groups = q.shape[1] // read.keys.shape[1]
    keys, values = (part.repeat_interleave(groups, dim=1) for part in read)
    weights = weights_of(scores_of(q, keys, scoring, bias), scoring, visible(view, q))
    weights = dropout(weights, scoring.dropout).to(values.dtype)
    mixed = weights @ values
    return positions.add_values(mixed, weights, view)


def scores_of(
    q: Float[Tensor, "batch heads queries d_head"],
    keys: Float[Tensor, "batch heads keys d_head"],
    scoring: Scoring,
    bias: Tensor | None,
) -> Float[Tensor, "batch heads queries keys"]:
    """cap(scale q k^T) + bias, before any mask; in float32 at least.

    Args:
        q: (batch, heads, queries, d_head). keys: (batch, heads, keys, d_head).
        scoring: scale and cap. bias: added last; None for none.
    """
    scores = wide(q @ keys.transpose(-1, -2)) * scoring.scale
    if scoring.soft_cap is not None:
        scores = scoring.soft_cap * torch.tanh(scores / scoring.soft_cap)
    return scores if bias is None else scores + bias


def weights_of(
    scores: Float[Tensor, "batch heads queries keys"], scoring: Scoring, mask: Tensor | None
) -> Float[Tensor, "batch heads queries keys"]:
    """The softmax over the visible keys without a sink's share; zero if no key is visible.

    Args:
        scores: (batch, heads, queries, keys). scoring: has the sinks. mask: True where visible.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    if scoring.sinks is not None:
        column = scoring.sinks.to(scores)[None, :, None, None].expand(*scores.shape[:3], 1)
        weights = torch.softmax(torch.cat((scores, column), dim=-1), dim=-1)[..., :-1]
    else:
        weights = torch.softmax(scores, dim=-1)
    return weights if mask is None else weights * mask.any(dim=-1, keepdim=True)


def visible(view: View, q: Tensor) -> Tensor | None:
    """Which keys are visible, with the kernel's own causal mask as a tensor."""
    return distances(view.start, q.shape[2], q.device) <= 0 if view.causal else view.mask
