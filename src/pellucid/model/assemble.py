"""The one door from a config to a model.

Comes in: a `config.Transformer`. Goes out: a `Transformer` module with its weights drawn. All
branching on kinds is here; no other file of this room reads a config.
"""

from __future__ import annotations

from typing import assert_never

import torch
from torch import nn

from pellucid import config
from pellucid.maths import depth_scale, he_std, xavier_std
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.blocks import Block, Stack
from pellucid.model.feed_forward import (
    MLP,
    Activate,
    GatedMLP,
    gelu,
    gelu_tanh,
    relu,
    relu_squared,
    silu,
)
from pellucid.model.initialisation import Std, initialise
from pellucid.model.norms import LayerNorm, RMSNorm
from pellucid.model.positions import Learned, NoPositions, Positions, Rotary, Sinusoidal
from pellucid.model.residuals import Rule, no_residual, post_norm, pre_norm
from pellucid.model.transformer import Transformer
from pellucid.typed import own_randomness

_ACTIVATIONS: dict[config.Activation, Activate] = {
    "relu": relu,
    "relu_squared": relu_squared,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
}


def assemble(model: config.Transformer, *, seed: int) -> Transformer:
    """The model that `model` describes, its weights drawn with `seed`.

    Under `torch.device("meta")` nothing is allocated or drawn.

    Raises:
        ConfigError: `vocab_size` is not set.
    """
    # torch's own first weights are drawn from its global generator, which is not ours to move
    with own_randomness():
        transformer = _build(model)
    if not transformer.head_weight.is_meta:
        initialise(
            transformer,
            weights=_std(model.initialisation.weights),
            embedding_std=model.initialisation.embedding_std,
            output_scale=_output_scale(model),
            generator=torch.Generator().manual_seed(seed),
        )
    return transformer


def _build(model: config.Transformer) -> Transformer:
    stack = model.decoder
    return Transformer(
        token_embedding=nn.Embedding(model.rows, model.d_model),
        decoder=Stack(
            blocks=[_block(model) for _ in range(stack.n_layers)],
            positions=_positions(model),
            final_norm=_norm(stack.norm, model.d_model) if stack.final_norm else None,
            dropout=stack.dropout,
        ),
        context_length=model.context_length,
        tied=model.embedding.tied,
        scaled=model.embedding.scaled,
    )


def _block(model: config.Transformer) -> Block:
    stack = model.decoder
    return Block(
        attention=_attention(stack.attention, model.d_model),
        feed_forward=_feed_forward(stack.feed_forward, model.d_model),
        attention_norm=_norm(stack.norm, model.d_model),
        feed_forward_norm=_norm(stack.norm, model.d_model),
        residual=_residual(stack.residual),
        dropout=stack.dropout,
    )


def _attention(attention: config.Attention, d_model: int) -> nn.Module:
    qk_norm = attention.qk_norm
    return MultiHeadAttention(
        d_model=d_model,
        n_heads=attention.n_heads,
        n_kv_heads=attention.n_kv_heads,
        d_head=attention.d_head,
        qkv_bias=attention.qkv_bias,
        out_bias=attention.out_bias,
        query_norm=None if qk_norm is None else _norm(qk_norm, attention.d_head),
        key_norm=None if qk_norm is None else _norm(qk_norm, attention.d_head),
        dropout=attention.dropout,
    )


def _feed_forward(feed_forward: config.FeedForward, d_model: int) -> nn.Module:
    activation = _ACTIVATIONS[feed_forward.activation]
    match feed_forward:
        case config.MLP(d_ff=d_ff, bias=bias):
            return MLP(d_model=d_model, d_ff=d_ff, activation=activation, bias=bias)
        case config.GatedMLP(d_ff=d_ff, bias=bias):
            return GatedMLP(d_model=d_model, d_ff=d_ff, activation=activation, bias=bias)
        case _:
            assert_never(feed_forward)


def _norm(norm: config.Norm, width: int) -> nn.Module:
    match norm:
        case config.LayerNorm(eps=eps, bias=bias):
            return LayerNorm(width, eps=eps, bias=bias)
        case config.RMSNorm(eps=eps):
            return RMSNorm(width, eps=eps)
        case _:
            assert_never(norm)


def _positions(model: config.Transformer) -> Positions:
    length, d_model = model.context_length, model.d_model
    positions: config.Positions = model.decoder.positions
    match positions:
        case config.NoPositions():
            return NoPositions()
        case config.Learned():
            return Learned(context_length=length, d_model=d_model)
        case config.Sinusoidal(base=base):
            return Sinusoidal(context_length=length, d_model=d_model, base=base)
        case config.Rotary(base=base):
            d_head = model.decoder.attention.d_head
            return Rotary(context_length=length, d_head=d_head, base=base)
        case _:
            assert_never(positions)


def _residual(residual: config.Residual) -> Rule:
    match residual:
        case config.PreNorm():
            return pre_norm
        case config.PostNorm():
            return post_norm
        case config.NoResidual():
            return no_residual
        case _:
            assert_never(residual)


def _std(weights: config.Normal | config.He | config.Xavier) -> Std:
    match weights:
        case config.Normal(std=std):
            return lambda n_in, n_out: std
        case config.He():
            return lambda n_in, n_out: he_std(n_in)
        case config.Xavier():
            return xavier_std
        case _:
            assert_never(weights)


def _output_scale(model: config.Transformer) -> float:
    match model.initialisation.outputs:
        case "plain":
            return 1.0
        case "depth_scaled":
            return depth_scale(model.decoder.n_layers)
        case "zero":
            return 0.0
