"""Signals that end a process or ask it to save: who handles them, for how long.

Must not know: what a handler does.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from types import FrameType

#: Ctrl-C; what `kill` and a batch system send; what a closed terminal sends. Windows has no SIGHUP.
ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
#: "Save now, and continue." Windows has none.
SAVING = tuple(getattr(signal, name) for name in ("SIGUSR1",) if hasattr(signal, name))
#: The reader of a pipe has ended; Python ignores the signal itself. Windows has none.
UNREAD = getattr(signal, "SIGPIPE", None)

Handler = Callable[[int, FrameType | None], None]


@contextmanager
def handled(numbers: Iterable[int], handler: Handler) -> Generator[None]:
    """Within it, `handler` gets these signals; afterwards whoever got them before does.

    A signal that was ignored stays ignored, as `nohup` wants it. Outside the main thread nothing is
    installed: Python allows it nowhere else.
    """
    previous_handlers = take(numbers, handler)
    try:
        yield
    finally:
        for number, previous in previous_handlers.items():
            signal.signal(number, previous)


def take(
    numbers: Iterable[int], handler: Handler | signal.Handlers
) -> dict[int, Callable[[int, FrameType | None], object] | int | None]:
    """Give these signals to `handler` from now on; who had them before. As in `handled`."""
    previous_handlers: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers:
            # None: a handler that is not Python's, which could not be put back
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                previous_handlers[number] = signal.signal(number, handler)
    return previous_handlers


def end_at_once(number: int, frame: FrameType | None) -> None:
    """A handler that ends the process, with the code of the signal; nothing is cleared up."""
    with suppress(OSError):  # the terminal may be gone
        os.write(2, f"stopped by {name_of(number)} at once\n".encode())
    os._exit(128 + number)


def settle_code(code: int) -> None:
    """From now on no signal changes the exit code: all that is left is to leave."""
    take(ENDING, lambda number, frame: os._exit(code))  # while threads are waited for
    # Python's handlers go before the process does
    atexit.register(take, ENDING, signal.SIG_IGN)


def name_of(number: int) -> str:
    """How a signal is called: SIGTERM."""
    return signal.Signals(number).name
