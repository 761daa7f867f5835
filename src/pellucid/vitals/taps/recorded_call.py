"""A recorded call of a model, cut to a few rows, to repeat it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.batches import IGNORED

#: Class names in transformers of models that shift their labels, which are the inputs.
_SHIFTED = ("ForCausalLM", "LMHeadModel")
_PLAIN: tuple[Any, ...] = (
    torch.dtype,
    torch.device,
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    slice,
    type,
    Enum,
)
_REASON = "the model is called with a {}: pass probe=Probe(...)"


class Uncuttable(Exception):  # noqa: N818  (a reason, not an error)
    """An argument that has no rows, or that may change before a second call.

    Examples are a cache of keys and values, an iterator, and a function that samples its batch.
    """


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def rows(self, batch: int, rows: int) -> Call:
        """The same call with `rows` rows of each tensor that has `batch` of them.

        Raises:
            Uncuttable: An argument is neither a tensor, nor a plain value, nor a container of them.
        """

        def cut(tensor: Tensor) -> Tensor:
            if not is_plain(tensor):
                raise Uncuttable(_REASON.format("sparse, nested or transformed tensor"))
            first = tensor[:rows] if tensor.ndim and tensor.shape[0] == batch else tensor
            return first.detach().clone()

        return Call(_mapped(self.args, cut), _mapped(self.kwargs, cut))

    def map(self, change: Callable[[Tensor], Tensor]) -> Call:
        """The same call with every tensor changed."""
        return Call(_mapped(self.args, change), _mapped(self.kwargs, change))

    def copy(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies of the arguments, because a model may write to them."""
        return _mapped(self.args, Tensor.clone), _mapped(self.kwargs, Tensor.clone)


def is_learning(module: nn.Module) -> bool:
    """Whether the loop learns from this call: a model that generates text does not."""
    return module.training and torch.is_grad_enabled()


class LearningCalls:
    """Which calls of a model the loop learns from, also if it never calls `train()`.

    Models of transformers are loaded in evaluation mode. So calls in that mode count until one
    comes in training mode: from then on, the others are evaluations.
    """

    def __init__(self) -> None:
        #: whether a call in training mode has come
        self.has_trained = False

    def include(self, module: nn.Module) -> bool:
        """Whether the loop may learn from a call that comes now.

        Args:
            module: The model that is called.
        """
        is_trained = is_learning(module)
        self.has_trained |= is_trained
        return is_trained or (torch.is_grad_enabled() and not self.has_trained)


def is_plain(tensor: Tensor) -> bool:
    """Whether it has rows of numbers of its own; sparse and nested tensors have none.

    A tensor within `torch.func` represents other tensors, and is invalid afterwards.
    """
    is_wrapped: Any = getattr(cast("Any", torch)._C._functorch, "is_functorch_wrapped_tensor", None)
    rows = tensor.layout is torch.strided and not tensor.is_nested
    return rows and not (is_wrapped is not None and is_wrapped(tensor))


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        table = cast("Mapping[Any, Any]", value)
        copied: Any = copy.copy(table)  # of the same class
        for key in table:
            copied[key] = _mapped(table[key], change)
        return copied
    if isinstance(value, tuple | list):
        items = cast("tuple[Any, ...]", value)
        mapped = [_mapped(item, change) for item in items]
        kind: Any = type(items)
        return kind(*mapped) if hasattr(kind, "_fields") else kind(mapped)
    raise Uncuttable(_REASON.format(type(value).__name__))


def inputs_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments that may be ids: those of that name, else all."""
    ids = kwargs.get("input_ids")  # a mask may come before them
    return (*args, *kwargs.values()) if ids is None else (ids,)


def ids_in(inputs: tuple[Any, ...]) -> Tensor | None:
    """The first tensor, if it holds whole numbers."""
    ids = next((t for t in inputs if isinstance(t, Tensor) and t.ndim), None)
    numbers = ids is None or ids.is_floating_point() or ids.is_complex()
    return None if ids is None or numbers or not is_plain(ids) else ids.detach()


def targets_of(call: Call, kind: str, *, decodes: bool) -> Tensor | None:
    """The target of each place of a call; None if the meaning of its labels is unknown.

    Args:
        call: The call of a model.
        kind: The name of the model's class.
        decodes: Whether its first argument are its labels.
    """
    labels: Any = call.kwargs.get("labels")
    if decodes:
        labels = call.args[0] if call.args else None
    elif not isinstance(labels, Tensor) or not kind.endswith((*_SHIFTED, "ForMaskedLM")):
        return None
    if not isinstance(labels, Tensor) or labels.ndim != 2:
        return None
    if kind.endswith("ForMaskedLM"):
        return labels
    targets = torch.full_like(labels, IGNORED)
    targets[:, :-1] = labels[:, 1:]
    return targets
