"""A call of a model as it was made: kept, cut to a few rows, and made again."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

import torch
from torch import Tensor

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


class Uncuttable(Exception):  # noqa: N818  (a reason, and no error of anybody's)
    """An argument that a few rows cannot be taken of, or that a second call may find changed.

    A cache of keys and values is one; so are an iterator, and a function that draws its own batch.
    """


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of a call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def rows(self, batch: int, rows: int) -> Call:
        """The same with `rows` rows, of whatever has `batch` of them.

        Raises:
            Uncuttable: an argument is neither a tensor, nor a plain value, nor a container of them.
        """

        def cut(tensor: Tensor) -> Tensor:
            if not is_plain(tensor):
                raise Uncuttable(_REASON.format("sparse, nested or transformed tensor"))
            mine = tensor[:rows] if tensor.ndim and tensor.shape[0] == batch else tensor
            return mine.detach().clone()

        return Call(_mapped(self.args, cut), _mapped(self.kwargs, cut))

    def copy(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments that may be written to."""
        return _mapped(self.args, Tensor.clone), _mapped(self.kwargs, Tensor.clone)


def is_plain(tensor: Tensor) -> bool:
    """Whether it has numbers of its own, in rows: a sparse or nested one has no such rows.

    Within `torch.func` a tensor stands for others, and means nothing afterwards.
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
        copied: Any = copy.copy(table)  # of its own kind
        for key in table:
            copied[key] = _mapped(table[key], change)
        return copied
    if isinstance(value, tuple | list):
        items = cast("tuple[Any, ...]", value)
        mapped = [_mapped(item, change) for item in items]
        kind: Any = type(items)
        return kind(*mapped) if hasattr(kind, "_fields") else kind(mapped)
    raise Uncuttable(_REASON.format(type(value).__name__))
