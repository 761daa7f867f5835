"""Writing to tensors that is undone: what a call changes in place is put back after it.

A tensor is copied only where something is about to write to it. What was made within the context
is not looked after, and what a kernel of somebody else's writes is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

#: Statistics that a norm of batches writes to, though it does not say so.
_UNSAID = ("running_mean", "running_var")


class WritesUndone(TorchDispatchMode, AbstractContextManager[object]):
    """Within it every write to memory that was there before is noted, and undone at its end."""

    #: torch asks whether operators that take functions may pass
    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: torch would load its compiler to keep it away, and nothing is compiled within."""
        return False

    def __init__(self) -> None:
        cast("Any", super()).__init__()
        #: addresses of memory that was made within; an older one cannot have the same, for it lives
        self._fresh: set[int] = set()
        self._kept: dict[int, tuple[Any, Any]] = {}
        self._versions: list[tuple[Tensor, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for place, name in _written(func):
            value = kwargs.get(name, args[place] if place < len(args) else None)
            for tensor in _tensors(value):
                self._keep(tensor)
        output = func(*args, **kwargs)
        inputs = {_address(tensor) for tensor in _tensors((args, kwargs))}
        self._fresh.update({_address(tensor) for tensor in _tensors(output)} - inputs)
        return output

    def _keep(self, tensor: Tensor) -> None:
        address = _address(tensor)
        if address in self._fresh or address == 0:
            return
        if not tensor.is_inference():
            self._versions.append((tensor, cast("Any", tensor)._version))
        if address not in self._kept:
            storage = tensor.untyped_storage()
            self._kept[address] = (storage, storage.clone())

    def __exit__(self, *exception: Any) -> None:
        cast("Any", super()).__exit__(*exception)
        for storage, saved in self._kept.values():
            if storage.nbytes() != saved.nbytes():
                storage.resize_(saved.nbytes())
            storage.copy_(saved)
        # a backward pass that is still to come must not take them for changed; the first first
        for tensor, version in reversed(self._versions):
            cast("Any", torch)._C._autograd._unsafe_set_version_counter((tensor,), (version,))


@lru_cache(maxsize=4096)
def _written(func: Any) -> tuple[tuple[int, str], ...]:
    """Place and name of each argument that an operator writes to."""
    schema = getattr(func, "_schema", None)
    named = enumerate(() if schema is None else schema.arguments)
    return tuple(
        (place, argument.name)
        for place, argument in named
        if argument.name in _UNSAID or (argument.alias_info and argument.alias_info.is_write)
    )


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(tuple(cast("dict[Any, Any]", value).values()))
    elif isinstance(value, tuple | list):
        for item in cast("tuple[Any, ...]", value):
            yield from _tensors(item)


def _address(tensor: Tensor) -> int:
    """Where a tensor's memory is known by; 0 of one that has none of its own, as a sparse one."""
    try:
        return cast("Any", tensor.untyped_storage())._cdata
    except (NotImplementedError, RuntimeError):
        return 0
