"""Signals that end a process or ask it to save: who handles them, for how long."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from types import FrameType

#: Ctrl-C; what `kill` and a batch system send; what a closed terminal sends. Windows has no SIGHUP.
ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
#: "Save now, and go on." Windows has none.
SAVING = tuple(getattr(signal, name) for name in ("SIGUSR1",) if hasattr(signal, name))

Handler = Callable[[int, FrameType | None], None]


@contextmanager
def handled(numbers: Iterable[int], handler: Handler) -> Generator[None]:
    """Within it, `handler` gets these signals; afterwards whoever got them before does.

    A signal that was ignored stays ignored, as `nohup` wants it. Outside the main thread nothing is
    installed: Python allows it nowhere else.
    """
    previous_handlers: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in numbers:
                # None: a handler that is not Python's, which could not be put back
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    previous_handlers[number] = signal.signal(number, handler)
        yield
    finally:
        for number, previous in previous_handlers.items():
            signal.signal(number, previous)


def name_of(number: int) -> str:
    """How a signal is called: SIGTERM."""
    return signal.Signals(number).name
