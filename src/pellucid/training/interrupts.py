"""Signals while a run is prepared and trained.

    SIGINT (Ctrl-C), SIGTERM, SIGHUP   before the first step: stop at once, there is nothing to save
                                       later: finish the step and save; a second one stops at once
    SIGUSR1                            save after this step, and go on

Signals set flags; before the first step, and the second time, they raise exceptions.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType, TracebackType

from pellucid import signals
from pellucid.errors import Interrupted, Signalled, signal_of

_FINISHING = b"\nfinishing this step, then saving; once more to stop now\n"
_SAVING = b"\nsaving after this step, then going on\n"

BEFORE_A_STEP = "before the first step: there is nothing to save"
_IMMEDIATELY = "at once: nothing was saved since the last checkpoint"


def interruption(step: int, number: int | None) -> Interrupted:
    """The exception that ends a run after `step` steps, by a signal or by your own code."""
    cause = "" if number is None else f" by {signals.name_of(number)}"
    moment = f"after step {step}; the state is saved" if step else BEFORE_A_STEP
    return Interrupted(f"stopped{cause} {moment}", number or signal.SIGINT)


class Interrupts:
    """While entered, signals set `asked` and `save_asked`, or stop work that cannot be saved yet.

    A signal that was ignored before stays ignored, and your own SIGUSR1 handler stays in place.
    Outside the main thread no handler is installed.
    """

    def __init__(self) -> None:
        #: whether to stop after this step; your own code may set it
        self.asked = False
        #: whether to save after this step
        self.save_asked = False
        #: the signal that set `asked`; None if your own code did
        self.signal: int | None = None
        self._looping = self._has_looped = False
        self._handlers: list[ExitStack] = []

    def __enter__(self) -> Interrupts:
        handlers = ExitStack()
        handlers.enter_context(signals.handled(signals.ENDING, self._end))
        free = [n for n in signals.SAVING if signal.getsignal(n) == signal.SIG_DFL]
        handlers.enter_context(signals.handled(free, self._save))
        self._handlers.append(handlers)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._handlers.pop().close()
        if isinstance(error, KeyboardInterrupt | Signalled):
            number = signal_of(error)
            moment = _IMMEDIATELY if self._has_looped else BEFORE_A_STEP
            raise Interrupted(f"stopped by {signals.name_of(number)} {moment}", number) from None

    @contextmanager
    def finishing_steps(self) -> Generator[None]:
        """Within it, the first signal only asks; the loop ends when its step is saved."""
        self._looping = self._has_looped = True
        try:
            yield
        finally:
            self._looping = False

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self.asked or not self._looping:
            raise KeyboardInterrupt if number == signal.SIGINT else Signalled(number)
        self.signal = number
        self.asked = True
        _print(_FINISHING)

    def _save(self, number: int, frame: FrameType | None) -> None:
        self.save_asked = True
        _print(_SAVING)


def _print(line: bytes) -> None:
    # not print: a signal may arrive in the middle of one; and the terminal may be gone
    with suppress(OSError):
        os.write(2, line)
