"""A model that is run by somebody who watches, and is afterwards as it was."""

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

from pellucid.typed import eagerly
from pellucid.vitals.taps.hooks import unheard
from pellucid.vitals.taps.undo_writes import WritesUndone

_ABSENT = object()
#: What is in a container of more than so many is not looked into.
_MAX_ITEMS = 1000

#: Kinds of values that nothing is kept in.
_ATOMS = (type(None), bool, int, float, str, torch.nn.Parameter)


@contextmanager
def as_it_was(model: nn.Module) -> Generator[None]:
    """Afterwards modules, random generators and autocast's cache are as they were before."""
    with ExitStack() as stack:
        stack.enter_context(unheard())
        stack.enter_context(_same_randomness())
        # weights cast without gradients must not be handed to the training that goes on
        stack.callback(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled())
        torch.set_autocast_cache_enabled(False)
        visited: set[int] = set()
        for module in model.modules():
            for restore in _attributes(module, visited):
                stack.callback(restore)
        yield


@contextmanager
def at_rest(model: nn.Module) -> Generator[None]:
    """Within it the model is as for use, eager and without gradients; after it all is as before."""
    with torch.no_grad(), eagerly(), as_it_was(model), WritesUndone():
        for module in model.modules():
            module.training = False
        yield


def _attributes(module: nn.Module, visited: set[int]) -> Iterator[Callable[[], object]]:
    """What brings back a module's attributes, and what is in its containers and generators."""
    attributes = vars(module)
    saved = dict(attributes)
    if "training" not in attributes:  # compiled by `torch.jit.script`: the mode is kept elsewhere
        mode = module.training
        yield lambda: setattr(module, "training", mode)
    yield lambda: _put_back(attributes, saved)
    for name, value in saved.items():
        if type(value) not in _ATOMS and "_hooks" not in name:
            # a helper of the model's is defined beside it; a trainer or a logger is not
            helps = type(value).__module__ == type(module).__module__
            yield from _contents(_attributes_of(value) if helps else value, visited)


def _attributes_of(value: Any) -> Any:
    return value if isinstance(value, nn.Module) else getattr(value, "__dict__", value)


def _contents(value: Any, visited: set[int]) -> Iterator[Callable[[], object]]:
    """What brings back the contents of a container, and of those within it."""
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
        yield lambda: _put_back(table, saved)
        within = list(saved.values())
    else:
        items = cast("list[Any]", value)
        within = list(items)
        yield lambda: _fill_again(items, within)
    for item in within if len(within) <= _MAX_ITEMS else ():
        yield from _contents(item, visited)


def _fill_again(items: Any, saved: list[Any]) -> None:
    current = list(items)
    if len(current) != len(saved) or any(a is not b for a, b in zip(current, saved, strict=True)):
        items.clear()
        for item in saved:
            (items.add if hasattr(items, "add") else items.append)(item)


def _put_back(current: dict[Any, Any], saved: dict[Any, Any]) -> None:
    for name in [name for name in current if name not in saved]:
        del current[name]
    for name, value in saved.items():
        if current.get(name, _ABSENT) is not value:
            current[name] = value
    if list(current) != list(saved):  # something was taken out and put in again
        current.clear()
        current.update(saved)


@contextmanager
def _same_randomness() -> Generator[None]:
    # asking for the generator of a device that nothing has used yet would wake it
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with cast("Any", torch.random).fork_rng(devices=devices), ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        stack.callback(cast("Any", np.random.set_state), cast("Any", np.random.get_state()))
        yield
