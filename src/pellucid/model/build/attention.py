"""From a config to the attention of a layer."""

from __future__ import annotations

import math
from typing import assert_never

from torch import nn

from pellucid import config
from pellucid.model.attention import (
    CrossAttention,
    Heads,
    MultiHeadAttention,
    QueryKeyNorms,
    Scores,
)
from pellucid.model.build.parts import norm, own_gain_norm
from pellucid.model.disentangled import NO_DISTANCES, DistanceProjections
from pellucid.model.latent_attention import Latent, LatentAttention, LatentHeads
from pellucid.model.linear_attention import LinearAttention
from pellucid.model.neural_memory import NeuralMemory


def attention(layer: config.Layer, d_model: int, number: int) -> nn.Module:
    """The attention of a layer; `number` counts from 1."""
    kind = layer.attention
    match kind:
        case config.MultiHead():
            return MultiHeadAttention(
                d_model=d_model,
                heads=_heads(kind),
                qkv_bias=kind.biases,
                out_bias=kind.out_bias,
                scores=_scores(kind, number if kind.scale_by_layer else 1),
                norms=_query_key_norms(kind),
                window=kind.window,
                clip=kind.clip,
                output_gate=kind.output_gate,
                distances=_distance_projections(kind, layer.positions, d_model),
            )
        case config.LatentAttention():
            return _latent_attention(kind, d_model)
        case config.LinearAttention():
            return LinearAttention(
                d_model=d_model,
                n_heads=kind.n_heads,
                d_head=kind.d_head,
                qkv_bias=kind.qkv_bias,
                out_bias=kind.out_bias,
                chunk=kind.chunk,
            )
        case config.NeuralMemory():
            return NeuralMemory(
                d_model=d_model,
                n_heads=kind.n_heads,
                d_head=kind.d_head,
                window=kind.window,
                chunk=kind.chunk,
                frozen=kind.frozen,
            )
        case _:
            assert_never(kind)


def _distance_projections(
    attention: config.MultiHead, positions: config.Positions, d_model: int
) -> DistanceProjections:
    """The projections of vectors of distances, one for each term, if they have their own."""
    if not isinstance(positions, config.Disentangled) or not positions.own_projections:
        return NO_DISTANCES

    def project(n_heads: int, bias: bool) -> nn.Module:
        return nn.Linear(d_model, n_heads * attention.d_head, bias=bias)

    query_bias, key_bias, _ = attention.biases

    return DistanceProjections(
        query=project(attention.n_heads, query_bias) if positions.position_to_content else None,
        key=project(attention.n_kv_heads, key_bias) if positions.content_to_position else None,
    )


def _latent_attention(attention: config.LatentAttention, d_model: int) -> nn.Module:
    def latent(width: int) -> Latent:
        return Latent(width, norm(attention.latent_norm, width))

    query_width = attention.d_query_latent
    return LatentAttention(
        d_model=d_model,
        heads=LatentHeads(
            attention.n_heads, attention.d_head, attention.d_rotated, attention.d_value
        ),
        latent=latent(attention.d_latent),
        query_latent=None if query_width is None else latent(query_width),
        latent_bias=attention.latent_bias,
        out_bias=attention.out_bias,
        scale=attention.scale,
        dropout=attention.dropout,
    )


def cross_attention(attention: config.MultiHead, d_model: int) -> nn.Module:
    """The attention of a decoder to an encoder's states."""
    return CrossAttention(
        d_model=d_model,
        heads=_heads(attention),
        qkv_bias=attention.biases,
        out_bias=attention.out_bias,
        scores=_scores(attention),
    )


def _heads(attention: config.MultiHead) -> Heads:
    return Heads(attention.n_heads, attention.n_kv_heads, attention.d_head, attention.d_value)


def _scores(attention: config.MultiHead, divisor: int = 1) -> Scores:
    scale = attention.scale
    if divisor != 1:
        scale = (1 / math.sqrt(attention.d_head) if scale is None else scale) / divisor
    return Scores(scale, attention.soft_cap, attention.sinks, attention.dropout)


def _query_key_norms(attention: config.MultiHead) -> QueryKeyNorms | None:
    kind, d_head = attention.qk_norm, attention.d_head
    if kind is None:
        return None

    def build_norm(n_heads: int) -> nn.Module:
        if attention.qk_norm_over == "each_head":
            return norm(kind, d_head)
        if attention.qk_norm_over == "all_heads":
            return norm(kind, d_head * n_heads)
        assert isinstance(kind, config.LayerNorm | config.RMSNorm)  # config refuses others
        return own_gain_norm(kind, d_head, n_heads)

    return QueryKeyNorms(
        query=build_norm(attention.n_heads),
        key=build_norm(attention.n_kv_heads),
        over_all_heads=attention.qk_norm_over != "each_head",
        after_rotation=attention.qk_norm_place == "after_rotation",
    )
