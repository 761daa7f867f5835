"""Norms with parameters: every token's features brought to a common scale.

Comes in: (..., features). Goes out: the same shape. They do not know where in a block they stand.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.typed import apply_function


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(var + eps) * gain (+ bias), over the last axis.

    Source:
        Ba, Kiros and Hinton 2016, "Layer Normalization", eq. 3-4.
    """

    def __init__(self, width: int, *, eps: float, bias: bool) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """The normalised features."""
        return F.layer_norm(x, (x.shape[-1],), self.gain, self.bias, self.eps)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * gain, over the last axis; computed in float32.

    Source:
        Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", eq. 4.
    """

    def __init__(self, width: int, *, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """The normalised features."""
        return apply_function(_RMSNorm, x, self.gain, self.eps)


class _RMSNorm(torch.autograd.Function):
    """The norm with its gradient by hand: torch's own is composed of many passes on a CPU.

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
        grad_gain = (grad * unit).flatten(0, -2).sum(0)
        return ((gained - unit * towards) * scale).to(x.dtype), grad_gain.to(gain.dtype), None
