"""Stop work between two layers when its answer is no longer needed."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import nn

from pellucid.errors import PellucidError
from pellucid.model import Stack

#: The event that stops the work; each layer checks it.
stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


class Stopped(PellucidError):  # noqa: N818  an event, not an error
    """The answer is no longer needed."""


def check_cancelled() -> None:
    """Stop here if the request was cancelled.

    Raises:
        Stopped: It was.
    """
    event = stop.get()
    if event is not None and event.is_set():
        raise Stopped("cancelled")


@contextmanager
def stoppable(model: nn.Module) -> Generator[None]:
    """Let every block of `model` check before its work whether to stop."""

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
