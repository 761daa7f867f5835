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
    dynamic_ntk_frequencies,
    interpolated_frequencies,
    llama3_frequencies,
    ntk_frequencies,
    yarn_frequencies,
)
from pellucid.model.experts import Experts
from pellucid.model.experts.routing import Groups, RouterRule
from pellucid.model.feed_forward import (
    MLP,
    Activate,
    ClampedGatedMLP,
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
from pellucid.model.rotary import LengthRotary, Rotary

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
    match kind:
        case config.MLP(d_ff=d_ff, bias=bias, activation=activation):
            activate = _ACTIVATIONS[activation]
            return MLP(d_model=d_model, d_ff=d_ff, activation=activate, bias=bias)
        case config.GatedMLP(d_ff=d_ff, bias=bias, activation=activation):
            activate = _ACTIVATIONS[activation]
            return GatedMLP(d_model=d_model, d_ff=d_ff, activation=activate, bias=bias)
        case config.ClampedGatedMLP(d_ff=d_ff, bias=bias, limit=limit, slope=slope):
            return ClampedGatedMLP(d_model=d_model, d_ff=d_ff, bias=bias, limit=limit, slope=slope)
        case config.Experts():
            return _experts(kind, d_model)
        case _:
            assert_never(kind)


def _experts(kind: config.Experts, d_model: int) -> Experts:
    router, groups = kind.router, kind.router.groups
    rule = RouterRule(
        scores=router.scores,
        n_active=kind.n_active,
        normalised=router.normalised,
        scale=router.scale,
        groups=None if groups is None else Groups(groups.n_groups, groups.n_active, groups.score),
    )
    return Experts(
        d_model=d_model,
        experts=[feed_forward(kind.expert, d_model) for _ in range(kind.n_experts)],
        rule=rule,
        router_bias=router.bias,
        balancing_rate=router.balancing_rate,
        shared=None if kind.shared is None else feed_forward(kind.shared, d_model),
        shared_gate=kind.shared_gate,
        weights_on=kind.weights_on,
        load_loss=kind.load_loss,
        router_z_loss=kind.router_z_loss,
    )


def transform(kind: config.HeadTransform, d_model: int) -> nn.Module:
    """The transform of the states before the head's matrix."""
    return HeadTransform(
        d_model=d_model,
        activation=_ACTIVATIONS[kind.activation],
        norm=norm(kind.norm, d_model),
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
    modules = [_scheme(model, scheme, attention_of[scheme], causal=causal) for scheme in schemes]
    if len(modules) == 1:
        return modules[0]
    return AlternatingPositions(modules, [schemes.index(layer.positions) for layer in stack.layers])


def _scheme(
    model: config.Transformer,
    scheme: config.OnePositions,
    attention: config.OneAttention,
    *,
    causal: bool,
) -> Positions:
    """One scheme of positions.

    Args:
        model: the model. scheme: the scheme. attention: of a layer that has it. causal: whether the
        stack is a decoder.
    """
    length, d_model = model.context_length, model.d_model
    match scheme:
        case config.NoPositions():
            return NoPositions()
        case config.Learned(offset=offset):
            return Learned(context_length=length, d_model=d_model, offset=offset)
        case config.Sinusoidal():
            return Sinusoidal(
                context_length=length,
                d_model=d_model,
                base=scheme.base,
                pairing=scheme.pairing,
                offset=scheme.offset,
                down_to_base=scheme.down_to_base,
            )
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


def _rotary(rotary: config.Rotary, context_length: int, d_head: int) -> Rotary:
    n_rotated = rotary.n_features or d_head
    with torch.device("cpu"):
        pairs = torch.arange(n_rotated // 2, dtype=torch.float64)
    frequencies = rotary_frequencies(pairs, n_rotated=n_rotated, base=rotary.base)
    scaling = rotary.scaling
    if isinstance(scaling, config.DynamicNTK | config.LongRoPE):
        return _length_rotary(rotary, scaling, context_length, frequencies)
    return Rotary(
        context_length=context_length,
        frequencies=_stretched(frequencies, scaling, rotary.base),
        pairing=rotary.pairing,
        attention_factor=scaling.attention_factor if isinstance(scaling, config.YaRN) else 1.0,
    )


def _length_rotary(
    rotary: config.Rotary,
    scaling: config.DynamicNTK | config.LongRoPE,
    context_length: int,
    frequencies: Tensor,
) -> LengthRotary:
    switch = scaling.original_context_length
    match scaling:
        case config.DynamicNTK(factor=factor):
            short, longest, attention_factor = frequencies, context_length, 1.0
            longer = partial(_dynamic, frequencies, factor, switch)
        case config.LongRoPE(attention_factor=attention_factor):
            short, long = (
                interpolated_frequencies(frequencies, factor=frequencies.new_tensor(factors))
                for factors in (scaling.short, scaling.long)
            )
            longest, longer = switch + 1, partial(_constant, long)
        case _:
            assert_never(scaling)
    return LengthRotary(
        context_length=context_length,
        frequencies=short,
        longer=longer,
        switch=switch,
        longest=longest,
        pairing=rotary.pairing,
        attention_factor=attention_factor,
    )


def _dynamic(frequencies: Tensor, factor: float, original_length: int, length: int) -> Tensor:
    return dynamic_ntk_frequencies(
        frequencies, factor=factor, length=length, original_length=original_length
    )


def _constant(frequencies: Tensor, length: int) -> Tensor:
    return frequencies


def _stretched(
    frequencies: Tensor,
    scaling: config.LinearScaling | config.NTKScaling | config.YaRN | config.Llama3Scaling | None,
    base: float,
) -> Tensor:
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
