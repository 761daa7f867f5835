"""A model that is run by somebody who watches, and is afterwards as it was.

Comes in: a model. Goes out: within the context, the model to be run; afterwards its attributes,
modes and buffers, and every generator, as before, whatever was raised. It does not know why it is
run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from pellucid.typed import eagerly
from pellucid.vitals.hooks import unheard

_ABSENT = object()


@contextmanager
def as_it_was(model: nn.Module) -> Generator[None]:
    """Afterwards modules, random generators and autocast's cache are as they were before."""
    with ExitStack() as stack:
        stack.enter_context(unheard())
        stack.enter_context(_same_randomness())
        # weights cast without gradients must not be handed to the training that goes on
        stack.callback(torch.set_autocast_cache_enabled, torch.is_autocast_cache_enabled())
        torch.set_autocast_cache_enabled(False)
        for module in model.modules():
            for restore in _attributes(module):
                stack.callback(restore)
        yield


@contextmanager
def at_rest(model: nn.Module) -> Generator[None]:
    """Within it the model is as for use, eager and without gradients; after it all is as before."""
    with torch.no_grad(), eagerly(), as_it_was(model), ExitStack() as stack:
        for buffer in model.buffers():
            stack.callback(_restore, buffer, buffer.clone(), _version(buffer))
        for module in model.modules():
            module.training = False
        yield


def _restore(buffer: Tensor, before: Tensor, version: int) -> None:
    if _version(buffer) != version:
        buffer.copy_(before)


def _attributes(module: nn.Module) -> Iterator[Callable[[], object]]:
    """What brings back a module's attributes, and what is in its lists, dicts and generators."""
    own = vars(module)
    before = dict(own)
    yield lambda: _put_back(own, before)
    for name, value in before.items():
        if type(value) in (dict, list, set) or name == "_buffers":
            yield _contents(value)
        elif isinstance(value, torch.Generator):
            state = value.get_state()
            yield lambda generator=value, state=state: generator.set_state(state)


def _contents(value: Any) -> Callable[[], None]:
    before = value.copy()

    def restore() -> None:
        if isinstance(value, dict):
            _put_back(cast("dict[Any, Any]", value), before)
        elif isinstance(value, list):
            value[:] = before
        elif value != before:
            value.clear()
            value.update(before)

    return restore


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


def _version(tensor: Tensor) -> int:
    return cast("Any", tensor)._version
