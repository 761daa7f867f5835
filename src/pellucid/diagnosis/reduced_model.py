"""A small twin of an architecture: the same parts, with small sizes.

Which token sees which does not depend on the width, so a probe of the small model holds for the
large one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from pellucid import config

_ROWS, _CONTEXT, _LAYERS, _HEADS, _D_HEAD, _D_FF = 256, 64, 4, 4, 16, 128
_EXPERTS, _GROUPS = 8, 4


def reduce_model(model: config.Transformer) -> config.Transformer:
    """The same architecture with a few thousand weights."""
    heads = model.stacks[-1].n_heads
    return replace(
        model,
        vocab_size=min(model.vocab_size or _ROWS, _ROWS),
        context_length=min(model.context_length, _CONTEXT),
        d_model=min(model.d_model, _D_HEAD * min(heads, _HEADS)),
        encoder=None if model.encoder is None else _stack(model.encoder),
        decoder=None if model.decoder is None else _stack(model.decoder),
    )


def _stack(stack: config.Stack) -> config.Stack:
    d_heads = {layer.positions: layer.attention.d_head for layer in stack.layer_counts}
    crossed = stack.cross_attention
    return replace(
        stack,
        n_layers=min(stack.n_layers, max(_LAYERS, len(stack.layer_counts))),
        positions=config.map_kinds(
            stack.positions, lambda scheme: _positions(scheme, d_heads.get(scheme, _D_HEAD))
        ),
        attention=config.map_kinds(stack.attention, _shrink_attention),
        feed_forward=config.map_kinds(stack.feed_forward, _shrink_feed_forward),
        cross_attention=None if crossed is None else _multi_head(crossed),
        shared_layers=None,  # they see what layers with weights of their own see
    )


def _shrink_feed_forward(feed_forward: config.OneFeedForward) -> config.OneFeedForward:
    match feed_forward:
        case config.MLP() | config.GatedMLP() | config.ClampedGatedMLP():
            return _shrink_dense(feed_forward)
        case config.Experts():
            return _shrink_experts(feed_forward)
        case _:
            assert_never(feed_forward)


def _shrink_dense(feed_forward: config.DenseFeedForward) -> config.DenseFeedForward:
    return replace(feed_forward, d_ff=min(feed_forward.d_ff, _D_FF))


def _shrink_experts(experts: config.Experts) -> config.Experts:
    shared, groups = experts.shared, experts.router.groups
    smaller = replace(
        experts,
        expert=_shrink_dense(experts.expert),
        shared=None if shared is None else _shrink_dense(shared),
    )
    if experts.n_experts <= _EXPERTS:
        return smaller
    if groups is not None:
        groups = replace(groups, n_groups=_GROUPS, n_active=min(groups.n_active, _GROUPS))
    router = replace(experts.router, groups=groups)
    n_active = min(experts.n_active, _EXPERTS // _GROUPS)
    return replace(smaller, n_experts=_EXPERTS, n_active=n_active, router=router)


def _shrink_attention(attention: config.OneAttention) -> config.OneAttention:
    if isinstance(attention, config.MultiHead):
        return _multi_head(attention)
    if isinstance(attention, config.LatentAttention):
        return _latent(attention)
    heads, width = min(attention.n_heads, _HEADS), min(attention.d_head, _D_HEAD)
    return replace(attention, n_heads=heads, d_head=width)


def _latent(attention: config.LatentAttention) -> config.LatentAttention:
    d_query = attention.d_query_latent
    return replace(
        attention,
        n_heads=min(attention.n_heads, _HEADS),
        d_head=min(attention.d_head, _D_HEAD),
        d_rotated=min(attention.d_rotated, _D_HEAD),
        d_value=min(attention.d_value, _D_HEAD),
        d_latent=min(attention.d_latent, 2 * _D_HEAD),
        d_query_latent=None if d_query is None else min(d_query, 2 * _D_HEAD),
        scale=None,  # another scale is meant for the original width
    )


def _multi_head(attention: config.MultiHead) -> config.MultiHead:
    heads = min(attention.n_heads, _HEADS)
    grouped = attention.n_kv_heads < attention.n_heads
    width = attention.d_value
    return replace(
        attention,
        n_heads=heads,
        n_kv_heads=max(1, heads // 2) if grouped else heads,
        d_head=min(attention.d_head, _D_HEAD),
        d_value=None if width is None else min(width, _D_HEAD),
        # another scale is meant for the original width
        scale=None if attention.scale not in (None, 1.0) else attention.scale,
    )


def _positions(positions: config.OnePositions, d_head: int) -> config.OnePositions:
    if not isinstance(positions, config.Rotary):
        return positions
    part = positions.n_features
    if part is not None:
        part = max(2, 2 * round(part / d_head * min(d_head, _D_HEAD) / 2))
    stretched = positions.scaling
    if stretched is not None and not isinstance(
        stretched, config.LinearScaling | config.NTKScaling
    ):
        stretched = None  # its numbers belong to the original length
    return replace(positions, n_features=part, scaling=stretched)
