"""Probe a model, and leave it as it was, bit for bit.

During a probe, parameters and buffers point at copies; pellucid never writes to the model's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.typed import named_modules
from pellucid.vitals import restoring

#: Names of one memory: two names of it have to share one copy.
_Place = tuple[int, torch.Size, tuple[int, ...], torch.dtype]


@contextmanager
def preserve_state(
    model: nn.Module, *, training: bool = False, dtype: torch.dtype | None = None
) -> Generator[None]:
    """Replace the tensors of `model` by copies, in one mode and with torch's seed at 0.

    Args:
        model: the module, which is unchanged afterwards.
        training: the mode.
        dtype: the type of floating copies; by default their own.
    """
    counts: list[tuple[nn.Parameter, int]] = []
    with restoring(model), ExitStack() as stack:
        # a later backward pass must not take the parameters for changed
        stack.callback(_set_versions, counts)
        for parameter, copied in _copies(model, dtype):
            counts.append((parameter, parameter._version))
            data, grad, requires_grad = parameter.data, parameter.grad, parameter.requires_grad
            stack.callback(_bring_back, parameter, data, grad, requires_grad)
            parameter.grad = None
            parameter.data = copied
        _onto_copied_buffers(model, dtype)
        cast("Any", torch).manual_seed(0)
        model.train(training)
        yield


def _bring_back(
    parameter: nn.Parameter, data: Tensor, grad: Tensor | None, requires_grad: bool
) -> None:
    parameter.grad = None
    parameter.requires_grad_(False)
    parameter.data = data
    parameter.requires_grad_(requires_grad)
    parameter.grad = grad


def _set_versions(counts: list[tuple[nn.Parameter, int]]) -> None:
    parameters, versions = zip(*counts, strict=True) if counts else ((), ())
    cast("Any", torch)._C._autograd._unsafe_set_version_counter(parameters, versions)


def _copies(model: nn.Module, dtype: torch.dtype | None) -> Generator[tuple[nn.Parameter, Tensor]]:
    """Each parameter with a copy; parameters that share memory share a copy."""
    copies: dict[_Place, Tensor] = {}
    for parameter in model.parameters():
        data = parameter.data
        place = (data.data_ptr(), data.shape, tuple(data.stride()), data.dtype)
        if place not in copies or not data.numel():
            copies[place] = _copy(data, dtype)
        yield parameter, copies[place]


def _onto_copied_buffers(model: nn.Module, dtype: torch.dtype | None) -> None:
    """Replace each buffer by a copy; `restoring` puts the buffers back."""
    for module in named_modules(model).values():
        buffers = cast("dict[str, Tensor | None]", cast("Any", module)._buffers)
        for name, buffer in list(buffers.items()):
            if buffer is not None:
                buffers[name] = _copy(buffer.detach(), dtype)


def _copy(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    if dtype is None or not tensor.is_floating_point():
        return tensor.clone()
    return tensor.to(dtype, copy=True)


def each_weight(model: nn.Module) -> Generator[tuple[str, nn.Parameter]]:
    """The floating parameters that are trained; if none is, all of them."""
    floating = [(name, p) for name, p in model.named_parameters() if p.is_floating_point()]
    yield from [(name, p) for name, p in floating if p.requires_grad] or floating


def awaken(model: nn.Module, is_embedding: Callable[[nn.Parameter], bool]) -> None:
    """Bring the weights to a middling size, so that every path of the code carries a signal.

    Branches that start at zero hide the code behind them, and so do weights so large that the
    softmax picks one token. Call it on copies: which token sees which depends on the code alone.
    """
    draws = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _, weight in each_weight(model):
            if weight.is_meta or not weight.numel():
                continue
            size = float(weight.detach().double().square().mean().sqrt())
            if size == 0:
                noise = torch.randn(weight.shape, generator=draws, dtype=torch.float64)
                scale = 0.05 if weight.ndim < 2 else 0.5 / weight.shape[-1] ** 0.5
                weight.copy_((noise * scale).to(weight))
                continue
            if is_embedding(weight):  # some rows may be empty
                empty = ~(weight != 0).any(dim=1)
                noise = torch.randn(int(empty.sum()), weight.shape[1], generator=draws)
                weight[empty] = (noise * size).to(weight)
            if weight.ndim >= 2 and size < float("inf"):
                width = weight.shape[-1] if is_embedding(weight) else max(weight.shape[-2:])
                usual = 1 / width**0.5
                if not 0.2 * usual <= size <= usual:
                    weight.mul_(0.5 * usual / size)
