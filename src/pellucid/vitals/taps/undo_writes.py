"""Undo writes to tensors: restore every tensor that a call changes in place.

A tensor is copied only when an operator is about to write to it. Tensors that the call itself makes
are not restored. Writes by kernels of other libraries are not seen.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pellucid.vitals.taps.outputs import tensors_in

#: Statistics that a batch norm writes to although its schema does not mark them.
_UNMARKED = ("running_mean", "running_var")


class WritesUndone(TorchDispatchMode, AbstractContextManager[object]):
    """Records every write to existing memory within it, and undoes them at its end."""

    #: lets operators pass that take functions
    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False, because torch would load its compiler otherwise; nothing is compiled within."""
        return False

    def __init__(self) -> None:
        cast("Any", super()).__init__()
        #: addresses of memory that was allocated within; older tensors are alive and differ
        self._fresh: set[int] = set()
        self._saved: dict[int, tuple[Any, Any]] = {}
        self._versions: list[tuple[Tensor, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        writes, result = _effects(func)
        for place, name in writes:
            value = kwargs.get(name, args[place] if place < len(args) else None)
            for tensor in tensors_in(value):
                self._save(tensor)
        output = func(*args, **kwargs)
        match result:
            case "views":
                pass
            case "new memory":
                self._fresh.update(map(_address, tensors_in(output)))
            case "either":
                inputs = {*map(_address, tensors_in((args, kwargs)))}
                self._fresh.update({*map(_address, tensors_in(output))} - inputs)
        return output

    def _save(self, tensor: Tensor) -> None:
        address = _address(tensor)
        if address in self._fresh or address == 0:
            return
        if not tensor.is_inference():
            self._versions.append((tensor, cast("Any", tensor)._version))
        if address not in self._saved:
            storage = tensor.untyped_storage()
            self._saved[address] = (storage, storage.clone())

    def __exit__(self, *exception: Any) -> None:
        cast("Any", super()).__exit__(*exception)
        for storage, saved in self._saved.values():
            if storage.nbytes() != saved.nbytes():
                storage.resize_(saved.nbytes())
            storage.copy_(saved)
        # a later backward pass must not take them for changed; the first version of each counts
        for tensor, version in reversed(self._versions):
            cast("Any", torch)._C._autograd._unsafe_set_version_counter((tensor,), (version,))


class _Effects(NamedTuple):
    """Position and name of each argument that an operator writes to; the memory of its result."""

    writes: tuple[tuple[int, str], ...]
    result: Literal["views", "new memory", "either"]


@lru_cache(maxsize=4096)
def _effects(func: Any) -> _Effects:
    """What an operator's schema says; of other libraries' operators it need not say all."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return _Effects((), "either")
    writes = tuple(
        (place, argument.name)
        for place, argument in enumerate(schema.arguments)
        if argument.name in _UNMARKED or (argument.alias_info and argument.alias_info.is_write)
    )
    are_views = {bool(value.alias_info) for value in schema.returns}
    if schema.name == "aten::_unsafe_view":
        are_views = {True}
    if not schema.name.startswith("aten::") or len(are_views) > 1:
        return _Effects(writes, "either")
    return _Effects(writes, "views" if True in are_views else "new memory")


def _address(tensor: Tensor) -> int:
    """The identity of a tensor's memory; 0 if it has none of its own, such as a sparse tensor."""
    try:
        return cast("Any", tensor.untyped_storage())._cdata
    except (NotImplementedError, RuntimeError):
        return 0
