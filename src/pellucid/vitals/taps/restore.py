"""Run a model without leaving a trace in it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import is_dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.backends import mha

from pellucid.parallel.collect import resharded
from pellucid.typed import eagerly
from pellucid.vitals.taps.hooks import silenced
from pellucid.vitals.taps.undo_writes import WritesUndone

_ABSENT = object()
#: The items of a larger container are not saved.
_MAX_ITEMS = 1000

#: Types of values that hold no state.
_ATOMS = (type(None), bool, int, float, str, torch.nn.Parameter)


@contextmanager
def restoring(model: nn.Module) -> Generator[None]:
    """Restore modules, random generators and torch's settings of a call at the end."""
    with ExitStack() as stack:
        stack.enter_context(silenced())
        stack.enter_context(_restoring_generators())
        # training must not get weights from the cache that were cast without gradients
        stack.callback(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled())
        torch.set_autocast_cache_enabled(False)
        # evaluation would take other kernels than training does, with rows of unequal lengths
        stack.callback(mha.set_fastpath_enabled, mha.get_fastpath_enabled())
        mha.set_fastpath_enabled(False)
        visited: set[int] = set()
        for module in model.modules():
            for restore in _attributes(module, visited):
                stack.callback(restore)
        yield


@contextmanager
def reading_mode(model: nn.Module) -> Generator[None]:
    """Run the model in evaluation mode, eager, without gradients; restore it at the end."""
    with torch.no_grad(), eagerly(), restoring(model), WritesUndone(), resharded(model):
        for module in model.modules():
            module.training = False
        yield


def _attributes(module: nn.Module, visited: set[int]) -> Iterator[Callable[[], object]]:
    """Functions that restore a module's attributes, containers and generators."""
    attributes = vars(module)
    saved = dict(attributes)
    if "training" not in attributes:  # `torch.jit.script` stores the mode elsewhere
        mode = module.training
        yield lambda: setattr(module, "training", mode)
    yield lambda: _restore_dict(attributes, saved)
    for name, value in saved.items():
        if type(value) not in _ATOMS and "_hooks" not in name:
            # a helper of the model is defined in the same module; a trainer or a logger is not
            is_helper = type(value).__module__ == type(module).__module__
            yield from _contents(_attributes_of(value) if is_helper else value, visited)


def _attributes_of(value: Any) -> Any:
    return value if isinstance(value, nn.Module) else getattr(value, "__dict__", value)


def _contents(value: Any, visited: set[int]) -> Iterator[Callable[[], object]]:
    """Functions that restore a container, and the containers in it."""
    if isinstance(value, torch.Generator):
        state = value.get_state()
        yield lambda: value.set_state(state)
        return
    if isinstance(value, SimpleNamespace) or (is_dataclass(value) and hasattr(value, "__dict__")):
        value = vars(value)
    if not isinstance(value, dict | list | set | deque):
        return
    address = id(cast("object", value))
    if address in visited:
        return
    visited.add(address)
    if isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        saved = dict(table)
        yield lambda: _restore_dict(table, saved)
        items = list(saved.values())
    else:
        container = cast("list[Any]", value)
        items = list(container)
        yield lambda: _restore_items(container, items)
    for item in items if len(items) <= _MAX_ITEMS else ():
        yield from _contents(item, visited)


def _restore_items(items: Any, saved: list[Any]) -> None:
    current = list(items)
    if len(current) != len(saved) or any(a is not b for a, b in zip(current, saved, strict=True)):
        items.clear()
        for item in saved:
            (items.add if hasattr(items, "add") else items.append)(item)


def _restore_dict(current: dict[Any, Any], saved: dict[Any, Any]) -> None:
    for name in [name for name in current if name not in saved]:
        del current[name]
    for name, value in saved.items():
        if current.get(name, _ABSENT) is not value:
            current[name] = value
    if list(current) != list(saved):  # a key was removed and added again
        current.clear()
        current.update(saved)


@contextmanager
def _restoring_generators() -> Generator[None]:
    # reading the generator of an unused device would initialise that device
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with cast("Any", torch.random).fork_rng(devices=devices), ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        stack.callback(cast("Any", np.random.set_state), cast("Any", np.random.get_state()))
        yield
