"""Activations in C, in one pass forward and one backward, if that is faster than torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from pellucid import native
from pellucid.native import ActivationName
from pellucid.threads import threads
from pellucid.typed import apply_function

_Run = Callable[[native.Numbers, int, native.Threads], None]


def in_one_pass(x: Tensor, name: ActivationName) -> Tensor | None:
    """The activation called `name` of each number of `x`; None if there is no C for it."""
    kind = native.kind_of(x.dtype)
    if x.device.type != "cpu" or kind is None or torch.compiler.is_compiling():
        return None
    forward = native.activation(name, "forward", kind)
    backward = native.activation(name, "backward", kind)
    if forward is None or backward is None:
        return None
    return cast("Tensor", apply_function(_Activation, x, forward, backward))


class _Activation(torch.autograd.Function):
    """An activation whose backward pass multiplies dL/dy by the slope at x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: _Run, backward: _Run) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x)
        ctx.run = backward
        y = torch.empty_like(x)
        forward(native.Numbers(x.data_ptr(), None, y.data_ptr()), x.numel(), threads())
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (x,) = cast("tuple[Tensor]", ctx.saved_tensors)
        by_y = grads[0].to(x.dtype).contiguous()
        by_x = torch.empty_like(x)
        numbers = native.Numbers(x.data_ptr(), by_y.data_ptr(), by_x.data_ptr())
        ctx.run(numbers, x.numel(), threads())
        return by_x, None, None
