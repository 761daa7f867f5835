"""From a config to the parts of a block: norms, positions, feed-forward, residual rules."""

from __future__ import annotations

from functools import partial
from typing import assert_never

import torch
from torch import Tensor, nn

from pellucid import config
from pellucid.maths.initialisation import he_std, xavier_std
from pellucid.maths.positions.rotary import rotary_frequencies
from pellucid.maths.positions.rotary_scaling import (
    interpolated_frequencies,
    llama3_frequencies,
    ntk_frequencies,
    yarn_frequencies,
)
from pellucid.model.blocks import Entry
from pellucid.model.disentangled import Disentangled
from pellucid.model.feed_forward import (
    MLP,
    Activate,
    GatedMLP,
    HeadTransform,
    gelu,
    gelu_tanh,
    quick_gelu,
    relu,
    relu_squared,
    silu,
)
from pellucid.model.initialisation import Std
from pellucid.model.norms import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from pellucid.model.positions import (
    AlternatingPositions,
    Learned,
    NoPositions,
    Positions,
    Sinusoidal,
)
from pellucid.model.relative_positions import ALiBi, BucketedBias, ShawRelative
from pellucid.model.residuals import (
    Rule,
    deep_norm,
    no_residual,
    output_norm,
    post_norm,
    pre_norm,
    sandwich_norm,
    scaled_pre_norm,
)
from pellucid.model.rotary import Rotary

_ACTIVATIONS: dict[config.Activation, Activate] = {
    "relu": relu,
    "relu_squared": relu_squared,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
    "silu": silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


def feed_forward(kind: config.OneFeedForward, d_model: int) -> nn.Module:
    """The feed-forward layer."""
    activation = _ACTIVATIONS[kind.activation]
    match kind:
        case config.MLP(d_ff=d_ff, bias=bias):
            return MLP(d_model=d_model, d_ff=d_ff, activation=activation, bias=bias)
        case config.GatedMLP(d_ff=d_ff, bias=bias):
            return GatedMLP(d_model=d_model, d_ff=d_ff, activation=activation, bias=bias)
        case _:
            assert_never(kind)


def transform(kind: config.HeadTransform | None, d_model: int, width: int) -> nn.Module | None:
    """The transform of states before the head's matrix, to `width` features."""
    if kind is None:
        return None
    return HeadTransform(
        d_model=d_model,
        width=width,
        activation=None if kind.activation is None else _ACTIVATIONS[kind.activation],
        norm=None if kind.norm is None else norm(kind.norm, width),
        bias=kind.bias,
    )


def norm(kind: config.Norm, width: int) -> nn.Module:
    """A norm over `width` features."""
    match kind:
        case config.LayerNorm(eps=eps, bias=bias, unit_offset=unit_offset, gain=gain):
            return LayerNorm(width, eps=eps, bias=bias, unit_offset=unit_offset, gain=gain)
        case config.RMSNorm(eps=eps, unit_offset=unit_offset, gain=gain):
            return RMSNorm(width, eps=eps, unit_offset=unit_offset, gain=gain)
        case config.BatchNorm(eps=eps, momentum=momentum):
            return BatchNorm(width, eps=eps, momentum=momentum)
        case config.GroupNorm(eps=eps, n_groups=n_groups):
            return GroupNorm(width, eps=eps, n_groups=n_groups)
        case config.InstanceNorm(eps=eps):
            return InstanceNorm(width, eps=eps)
        case _:
            assert_never(kind)


def entry(model: config.Transformer, stack: config.Stack) -> Entry:
    """The parts of a stack before its first block."""
    input_norm, scheme = stack.input_norm, stack.embedding_positions
    projection = model.embedding.projection
    return Entry(
        norm=None if input_norm is None else norm(input_norm, model.input_norm_width),
        positions=None if scheme is None else added_positions(model, scheme),
        projection=None
        if projection is None
        else nn.Linear(projection.width, model.d_model, bias=projection.bias),
        place="last" if projection is None else projection.place,
    )


def own_gain_norm(kind: config.LayerNorm | config.RMSNorm, d_head: int, n_heads: int) -> nn.Module:
    """A norm of each head's features, with a gain for each feature of each head.

    Args:
        kind: which norm. d_head: the features of a head. n_heads: how many heads lie side by side.
    """
    width = d_head * n_heads
    match kind:
        case config.LayerNorm(eps=eps, bias=bias):
            return GroupNorm(width, eps=eps, n_groups=n_heads, bias=bias)
        case config.RMSNorm(eps=eps, unit_offset=unit_offset):
            return RMSNorm(width, eps=eps, unit_offset=unit_offset, n_groups=n_heads)
        case _:
            assert_never(kind)


def positions(model: config.Transformer, stack: config.Stack, *, causal: bool) -> Positions:
    """The positions of a stack: one scheme, or several that take turns."""
    attention_of = {layer.positions: layer.attention for layer in stack.layer_counts}
    schemes = stack.schemes
    modules = [
        _scheme(model, stack, scheme, attention_of[scheme], causal=causal) for scheme in schemes
    ]
    if len(modules) == 1:
        return modules[0]
    return AlternatingPositions(modules, [schemes.index(layer.positions) for layer in stack.layers])


def _scheme(
    model: config.Transformer,
    stack: config.Stack,
    scheme: config.OnePositions,
    attention: config.OneAttention,
    *,
    causal: bool,
) -> Positions:
    """One scheme of positions.

    Args:
        model: the model. stack: the stack. scheme: the scheme. attention: of a layer that has it.
        causal: whether the stack is a decoder.
    """
    length = model.context_length
    match scheme:
        case config.NoPositions():
            return NoPositions()
        case config.Learned() | config.Sinusoidal():
            return added_positions(model, scheme)
        case config.ShawRelative(max_distance=furthest, values=values):
            d_head, d_value = attention.d_head, config.value_width(attention) if values else None
            return ShawRelative(max_distance=furthest, d_head=d_head, d_value=d_value)
        case config.BucketedBias(n_buckets=n_buckets, max_distance=furthest):
            return BucketedBias(
                context_length=length,
                n_heads=attention.n_heads,
                n_buckets=n_buckets,
                max_distance=furthest,
                causal=causal,
            )
        case config.Disentangled():
            return _disentangled(model, scheme, stack.dropout)
        case config.Rotary():
            return _rotary(scheme, length, config.rotated_width(attention))
        case config.ALiBi():
            return ALiBi(
                n_heads=attention.n_heads,
                max_exponent=scheme.max_exponent,
                scaled=scheme.scaled,
                rounded=scheme.rounded,
            )
        case _:
            assert_never(scheme)


def added_positions(
    model: config.Transformer, scheme: config.Learned | config.Sinusoidal
) -> Positions:
    """A scheme that is added to the embedding."""
    length, width = model.context_length, model.positions_width
    match scheme:
        case config.Learned(offset=offset):
            return Learned(context_length=length, d_model=width, offset=offset)
        case config.Sinusoidal():
            return Sinusoidal(
                context_length=length,
                d_model=width,
                base=scheme.base,
                pairing=scheme.pairing,
                offset=scheme.offset,
                down_to_base=scheme.down_to_base,
            )
        case _:
            assert_never(scheme)


def _disentangled(
    model: config.Transformer, scheme: config.Disentangled, dropout: float
) -> Disentangled:
    return Disentangled(
        context_length=model.context_length,
        d_model=model.d_model,
        n_buckets=scheme.n_buckets,
        max_distance=scheme.max_distance,
        content_to_position=scheme.content_to_position,
        position_to_content=scheme.position_to_content,
        own_projections=scheme.own_projections,
        norm=None if scheme.norm is None else norm(scheme.norm, model.d_model),
        dropout=dropout,
    )


def _rotary(rotary: config.Rotary, context_length: int, d_head: int) -> Rotary:
    n_rotated = rotary.n_features or d_head
    with torch.device("cpu"):
        pairs = torch.arange(n_rotated // 2, dtype=torch.float64)
    frequencies = rotary_frequencies(pairs, n_rotated=n_rotated, base=rotary.base)
    scaling = rotary.scaling
    return Rotary(
        context_length=context_length,
        frequencies=_stretched(frequencies, scaling, rotary.base),
        pairing=rotary.pairing,
        attention_factor=scaling.attention_factor if isinstance(scaling, config.YaRN) else 1.0,
    )


def _stretched(frequencies: Tensor, scaling: config.RotaryScaling | None, base: float) -> Tensor:
    match scaling:
        case None:
            return frequencies
        case config.LinearScaling(factor=factor):
            return interpolated_frequencies(frequencies, factor=factor)
        case config.NTKScaling(factor=factor):
            return ntk_frequencies(frequencies, factor=factor)
        case config.YaRN():
            return yarn_frequencies(
                frequencies,
                factor=scaling.factor,
                original_length=scaling.original_context_length,
                base=base,
                beta_fast=scaling.beta_fast,
                beta_slow=scaling.beta_slow,
                truncate=scaling.truncated,
            )
        case config.Llama3Scaling():
            return llama3_frequencies(
                frequencies,
                factor=scaling.factor,
                original_length=scaling.original_context_length,
                low=scaling.low_frequency_factor,
                high=scaling.high_frequency_factor,
            )
        case _:
            assert_never(scaling)


def residual(kind: config.Residual) -> Rule:
    """The residual rule."""
    match kind:
        case config.PreNorm(multiplier=multiplier):
            if multiplier is None:
                return pre_norm
            return partial(scaled_pre_norm, multiplier=multiplier)
        case config.Parallel():
            return pre_norm
        case config.PostNorm():
            return post_norm
        case config.OutputNorm():
            return output_norm
        case config.SandwichNorm():
            return sandwich_norm
        case config.DeepNorm(alpha=alpha):
            return partial(deep_norm, alpha=alpha)
        case config.NoResidual():
            return no_residual
        case _:
            assert_never(kind)


def std(weights: config.Normal | config.He | config.Xavier) -> Std:
    """The initial standard deviation of a matrix, from its shape."""
    match weights:
        case config.Normal(std=std):
            return lambda n_in, n_out: std
        case config.He():
            return lambda n_in, n_out: he_std(n_in)
        case config.Xavier():
            return xavier_std
        case _:
            assert_never(weights)
