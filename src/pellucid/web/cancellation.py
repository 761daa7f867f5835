"""Work that nobody waits for any more stops between two layers."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import nn

from pellucid.errors import PellucidError
from pellucid.model import Stack

#: Set by whoever starts the work; each layer looks at it.
stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


class Stopped(PellucidError):  # noqa: N818  an event, not an error
    """Nobody waits for the answer any more."""


def check_cancelled() -> None:
    """Stop here if that was asked for.

    Raises:
        Stopped: it was.
    """
    event = stop.get()
    if event is not None and event.is_set():
        raise Stopped("the question was taken back")


@contextmanager
def stoppable(model: nn.Module) -> Generator[None]:
    """Within it, every block of `model` looks whether to stop before it works."""

    def check_stop(_: nn.Module, inputs: Any) -> None:
        check_cancelled()

    blocks = [block for part in model.modules() if isinstance(part, Stack) for block in part.blocks]
    hooks = [block.register_forward_pre_hook(check_stop) for block in blocks]
    try:
        check_cancelled()
        yield
    finally:
        for hook in hooks:
            hook.remove()
