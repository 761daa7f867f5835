"""Norms with parameters: they bring features to a common scale."""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.model.facts import NormFacts
from pellucid.typed import apply_function


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(var + eps) * gain (+ bias), over the last axis.

    With `unit_offset` the gain is 1 + the weight; without `gain` it is 1.

    Source:
        Ba, Kiros and Hinton 2016, "Layer Normalization", eq. 3-4.
    """

    def __init__(
        self,
        width: int,
        *,
        eps: float,
        bias: bool,
        unit_offset: bool = False,
        gain: bool = True,
    ) -> None:
        super().__init__()
        self.eps, self.width, self.unit_offset = eps, width, unit_offset
        self.gain = _new_gain(width, unit_offset) if gain else None
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """The normalised features."""
        gain = self.gain
        if gain is not None and self.unit_offset:
            gain = gain + 1
        return F.layer_norm(x, (self.width,), gain, self.bias, self.eps)

    def facts(self) -> NormFacts:
        """Which numbers share a mean, and its parameters."""
        return NormFacts(
            mean_over="features",
            centred=True,
            eps=self.eps,
            gain=None if self.gain is None else "gain",
            bias=None if self.bias is None else "bias",
            gain_offset=1.0 if self.unit_offset else 0.0,
            width=self.width,
        )


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * gain, over the last axis; computed in float32.

    With `unit_offset` the gain is 1 + the weight; without `gain` it is 1. With `n_groups` each
    group of features has a mean square of its own.

    Source:
        Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", eq. 4.
    """

    def __init__(
        self,
        width: int,
        *,
        eps: float,
        unit_offset: bool = False,
        n_groups: int = 1,
        gain: bool = True,
    ) -> None:
        super().__init__()
        self.eps, self.width, self.unit_offset, self.n_groups = eps, width, unit_offset, n_groups
        self.gain = _new_gain(width, unit_offset) if gain else None

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """The normalised features."""
        groups = x if self.n_groups == 1 else x.view(*x.shape[:-1], self.n_groups, -1)
        if self.gain is None:
            wide = groups if x.dtype in (torch.float32, torch.float64) else groups.float()
            return F.rms_norm(wide, wide.shape[-1:], None, self.eps).to(x.dtype).view_as(x)
        gain = self.gain + 1 if self.unit_offset else self.gain
        if self.n_groups == 1:
            return apply_function(_RMSNorm, x, gain, self.eps)
        gains = gain.view(self.n_groups, -1)
        return apply_function(_RMSNorm, groups, gains, self.eps).flatten(-2)

    def facts(self) -> NormFacts:
        """Which numbers share a mean, and its parameters."""
        return NormFacts(
            mean_over="features",
            centred=False,
            eps=self.eps,
            gain=None if self.gain is None else "gain",
            gain_offset=1.0 if self.unit_offset else 0.0,
            n_groups=self.n_groups,
            width=self.width,
        )


def _new_gain(width: int, unit_offset: bool) -> nn.Parameter:
    """The weights of a gain of 1."""
    return nn.Parameter(torch.zeros(width) if unit_offset else torch.ones(width))


class BatchNorm(nn.Module):
    """(x - mean) / sqrt(var + eps) * gain + bias, each feature over all tokens of the batch.

    While training by the batch's own statistics, which it also folds into running ones with the
    weight `momentum`; in evaluation mode by the running ones. Leaks neighbours and the future.

    Source:
        Ioffe and Szegedy 2015, "Batch Normalization", algorithms 1 and 2.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, width: int, *, eps: float, momentum: float) -> None:
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """The normalised features."""
        normed = F.batch_norm(
            x.flatten(0, -2),
            self.running_mean,
            self.running_var,
            self.gain,
            self.bias,
            training=self.training,
            momentum=self.momentum,
            eps=self.eps,
        )
        return normed.view_as(x)

    def facts(self) -> NormFacts:
        """Which numbers share a mean, and its parameters."""
        return NormFacts(
            mean_over="batch",
            centred=True,
            eps=self.eps,
            gain="gain",
            bias="bias",
            running_mean="running_mean",
            running_variance="running_var",
        )


class GroupNorm(nn.Module):
    """As LayerNorm, over each of `n_groups` groups of one token's features.

    Source:
        Wu and He 2018, "Group Normalization", eq. 7; here without axes of space.
    """

    def __init__(self, width: int, *, eps: float, n_groups: int, bias: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.n_groups = n_groups
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """The normalised features."""
        tokens = x.flatten(0, -2)
        return F.group_norm(tokens, self.n_groups, self.gain, self.bias, self.eps).view_as(x)

    def facts(self) -> NormFacts:
        """Which numbers share a mean, and its parameters."""
        return NormFacts(
            mean_over="features",
            centred=True,
            eps=self.eps,
            gain="gain",
            bias=None if self.bias is None else "bias",
            n_groups=self.n_groups,
        )


class InstanceNorm(nn.Module):
    """(x - mean) / sqrt(var + eps) * gain + bias, each feature over the time of one sequence.

    Leaks the future, always.

    Source:
        Ulyanov et al. 2016, "Instance Normalization", eq. 4; time in the place of space.
    """

    def __init__(self, width: int, *, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*batch time width"]) -> Float[Tensor, "*batch time width"]:
        """The normalised features."""
        var, mean = torch.var_mean(x, dim=-2, correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(var + self.eps) * self.gain + self.bias

    def facts(self) -> NormFacts:
        """Which numbers share a mean, and its parameters."""
        return NormFacts(mean_over="sequence", centred=True, eps=self.eps, gain="gain", bias="bias")


class _RMSNorm(torch.autograd.Function):
    """The norm with its gradient by hand: on a CPU torch's own takes many passes.

    h = x / rms,  dL/dx = (g' - h mean(g' h)) / rms with g' = g * gain,  dL/dgain = sum g h
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, gain, scale)
        return (wide * scale * gain).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        x, gain, scale = cast("tuple[Tensor, Tensor, Tensor]", ctx.saved_tensors)
        grad = grads[0].to(scale.dtype)
        unit = x * scale
        gained = grad * gain
        towards = (gained * unit).mean(-1, keepdim=True)
        grad_gain = (grad * unit).flatten(0, -1 - gain.ndim).sum(0)
        return ((gained - unit * towards) * scale).to(x.dtype), grad_gain.to(gain.dtype), None
