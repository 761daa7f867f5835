"""From a config to the parts of a block: norms, feed-forward, residual rules."""

from __future__ import annotations

from functools import partial
from typing import assert_never

import torch
from torch import nn

from pellucid import config
from pellucid.maths.initialisation import he_std, xavier_std
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
