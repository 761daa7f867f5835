"""A model that may be prodded, and is afterwards as it was, bit for bit.

The module's own memory is never written to: parameters point at copies for as long as it lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from pellucid.typed import named_modules
from pellucid.vitals import restoring

#: Two names of one memory have to stay one.
_Place = tuple[int, torch.Size, tuple[int, ...], torch.dtype]


class _ParameterState(NamedTuple):
    data: Tensor
    grad: Tensor | None
    requires_grad: bool

    @classmethod
    def of(cls, parameter: nn.Parameter) -> _ParameterState:
        return cls(parameter.data, parameter.grad, parameter.requires_grad)


@contextmanager
def preserve_state(
    model: nn.Module, *, training: bool = False, dtype: torch.dtype | None = None
) -> Generator[None]:
    """Within it, `model` stands on copies, in one mode, with torch's generators at a fixed seed.

    With a `dtype`, floating tensors are copied to it.
    """
    counts: list[tuple[nn.Parameter, int]] = []
    with restoring(model), ExitStack() as stack:
        # a backward pass that is still to come must not take them for changed
        stack.callback(_set_versions, counts)
        for parameter, copied in _copies(model, dtype):
            counts.append((parameter, parameter._version))
            stack.callback(_bring_back, parameter, _ParameterState.of(parameter))
            parameter.grad = None
            parameter.data = copied
        _onto_copied_buffers(model, dtype)
        cast("Any", torch).manual_seed(0)
        model.train(training)
        yield


def _bring_back(parameter: nn.Parameter, state: _ParameterState) -> None:
    parameter.grad = None
    parameter.requires_grad_(False)
    parameter.data = state.data
    parameter.requires_grad_(state.requires_grad)
    parameter.grad = state.grad


def _set_versions(counts: list[tuple[nn.Parameter, int]]) -> None:
    parameters, versions = zip(*counts, strict=True) if counts else ((), ())
    cast("Any", torch)._C._autograd._unsafe_set_version_counter(parameters, versions)


def _copies(model: nn.Module, dtype: torch.dtype | None) -> Generator[tuple[nn.Parameter, Tensor]]:
    """Each parameter with a copy of its own; names of one memory get one copy."""
    copies: dict[_Place, Tensor] = {}
    for parameter in model.parameters():
        data = parameter.data
        place = (data.data_ptr(), data.shape, tuple(data.stride()), data.dtype)
        if place not in copies or not data.numel():
            copies[place] = _copy(data, dtype)
        yield parameter, copies[place]


def _onto_copied_buffers(model: nn.Module, dtype: torch.dtype | None) -> None:
    """Put a copy in the place of each buffer: `restoring` puts the buffers back."""
    for module in named_modules(model).values():
        within = cast("dict[str, Tensor | None]", cast("Any", module)._buffers)
        for name, buffer in list(within.items()):
            if buffer is not None:
                within[name] = _copy(buffer.detach(), dtype)


def _copy(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    if dtype is None or not tensor.is_floating_point():
        return tensor.clone()
    return tensor.to(dtype, copy=True)


def each_weight(model: nn.Module) -> Generator[tuple[str, nn.Parameter]]:
    """The floating parameters that are trained; all of them, where none is."""
    named = [(name, p) for name, p in model.named_parameters() if p.is_floating_point()]
    trained = [(name, p) for name, p in named if p.requires_grad]
    yield from trained or named


def awaken(model: nn.Module, is_embedding: Callable[[nn.Parameter], bool]) -> None:
    """Bring weights to a middling size, so that every path of the code carries something.

    A model whose branches start at zero, or so large that softmax picks one token, would hide what
    its code does. To be called on copies: who can see whom is a question about the code, and its
    answer is the same for any weights.
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
            if is_embedding(weight):  # some rows may never have been filled
                empty = ~(weight != 0).any(dim=1)
                noise = torch.randn(int(empty.sum()), weight.shape[1], generator=draws)
                weight[empty] = (noise * size).to(weight)
            if weight.ndim >= 2 and size < float("inf"):
                width = weight.shape[-1] if is_embedding(weight) else max(weight.shape[-2:])
                usual = 1 / width**0.5
                if not 0.2 * usual <= size <= usual:
                    weight.mul_(0.5 * usual / size)
