"""A model that is run by somebody who watches, and is afterwards as it was.

Comes in: a model. Goes out: within the context, the model to be run; afterwards its attributes,
modes and buffers, and every generator, as before, whatever was raised. It does not know why it is
run.
"""

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
from pellucid.vitals.hooks import unheard
from pellucid.vitals.writes import WritesUndone

_ABSENT = object()
#: What is in a container of more than so many is not looked into.
_MOST = 1000

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
        seen: set[int] = set()
        for module in model.modules():
            for restore in _attributes(module, seen):
                stack.callback(restore)
        yield


@contextmanager
def at_rest(model: nn.Module) -> Generator[None]:
    """Within it the model is as for use, eager and without gradients; after it all is as before."""
    with torch.no_grad(), eagerly(), as_it_was(model), WritesUndone():
        for module in model.modules():
            module.training = False
        yield


def _attributes(module: nn.Module, seen: set[int]) -> Iterator[Callable[[], object]]:
    """What brings back a module's attributes, and what is in its containers and generators."""
    own = vars(module)
    before = dict(own)
    yield lambda: _put_back(own, before)
    for name, value in before.items():
        if type(value) not in _ATOMS and "_hooks" not in name:
            # a helper of the model's is defined beside it; a trainer or a logger is not
            helps = type(value).__module__ == type(module).__module__
            yield from _contents(_attributes_of(value) if helps else value, seen)


def _attributes_of(value: Any) -> Any:
    return value if isinstance(value, nn.Module) else getattr(value, "__dict__", value)


def _contents(value: Any, seen: set[int]) -> Iterator[Callable[[], object]]:
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
    if address in seen:
        return
    seen.add(address)
    if isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        before = dict(table)
        yield lambda: _put_back(table, before)
        within = list(before.values())
    else:
        items = cast("list[Any]", value)
        within = list(items)
        yield lambda: _fill_again(items, within)
    for item in within if len(within) <= _MOST else ():
        yield from _contents(item, seen)


def _fill_again(items: Any, before: list[Any]) -> None:
    now = list(items)
    if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
        items.clear()
        for item in before:
            (items.add if hasattr(items, "add") else items.append)(item)


def _put_back(now: dict[Any, Any], before: dict[Any, Any]) -> None:
    for name in [name for name in now if name not in before]:
        del now[name]
    for name, value in before.items():
        if now.get(name, _ABSENT) is not value:
            now[name] = value
    if list(now) != list(before):  # something was taken out and put in again
        now.clear()
        now.update(before)


@contextmanager
def _same_randomness() -> Generator[None]:
    # asking for the generator of a device that nothing has used yet would wake it
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with cast("Any", torch.random).fork_rng(devices=devices), ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        stack.callback(cast("Any", np.random.set_state), cast("Any", np.random.get_state()))
        yield
