"""Activations in one pass forwards and one backwards, in C, where torch's take longer.

Comes in: a tensor that is learnt from, on a CPU. Goes out: the activation of each number, or None
where C is not to be had. It does not know which layer asks.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from pellucid import native
from pellucid.native import ActivationName
from pellucid.typed import apply_function

_KINDS: dict[torch.dtype, native.Kind] = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


def in_one_pass(x: Tensor, name: ActivationName) -> Tensor | None:
    """The activation called `name` of each number of `x`, or None."""
    learning = torch.is_grad_enabled() and x.requires_grad
    if not learning or x.device.type != "cpu" or x.dtype not in _KINDS:
        return None
    if torch.compiler.is_compiling() or native.activation(name, "forward", "float32") is None:
        return None
    return cast("Tensor", apply_function(_Activation, x, name))


class _Activation(torch.autograd.Function):
    """dL/dx = dL/dy times the slope at x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, name: ActivationName) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x)
        ctx.name = name
        y = torch.empty_like(x)
        _run(name, "forward", x, y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (x,) = cast("tuple[Tensor]", ctx.saved_tensors)
        by_x = torch.empty_like(x)
        _run(ctx.name, "backward", x, grads[0].to(x.dtype).contiguous(), by_x)
        return by_x, None


def _run(name: ActivationName, way: native.Way, *tensors: Tensor) -> None:
    run = native.activation(name, way, _KINDS[tensors[0].dtype])
    assert run is not None  # it was there on the way forwards
    run(tuple(each.data_ptr() for each in tensors), tensors[0].numel(), torch.get_num_threads())
