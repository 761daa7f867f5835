"""Signals while a run is prepared and trained.

    SIGINT (Ctrl-C), SIGTERM, SIGHUP   before the first step: stop at once, there is nothing to save
                                       later: finish the step and save; a second one stops at once
    SIGUSR1                            save after this step, and go on

Comes in: signals. Goes out: flags, and exceptions where nothing is to be finished. It does not know
what is being run.
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
_AT_ONCE = "at once: nothing was saved since the last checkpoint"


def interruption(step: int, number: int | None) -> Interrupted:
    """What ends a run after so many steps, by a signal or because your own code asked for it."""
    by = "" if number is None else f" by {signals.name_of(number)}"
    when = f"after step {step}; the state is saved" if step else BEFORE_A_STEP
    return Interrupted(f"stopped{by} {when}", number or signal.SIGINT)


class Interrupts:
    """While entered, signals set `asked` and `save_asked`, or stop what cannot be saved yet.

    A signal that was ignored at the start stays ignored, and so does a SIGUSR1 handler of your own
    stay in place. Outside the main thread nothing is installed.
    """

    def __init__(self) -> None:
        #: whether to stop after this step; your own code may set it
        self.asked = False
        #: whether to save after this step
        self.save_asked = False
        #: the signal that asked; None where your own code did
        self.signal: int | None = None
        self._looping = self._begun = False
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
            when = _AT_ONCE if self._begun else BEFORE_A_STEP
            raise Interrupted(f"stopped by {signals.name_of(number)} {when}", number) from None

    @contextmanager
    def finishing_steps(self) -> Generator[None]:
        """Within it, the first signal only asks; the loop ends when its step is saved."""
        self._looping = self._begun = True
        try:
            yield
        finally:
            self._looping = False

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self.asked or not self._looping:
            raise KeyboardInterrupt if number == signal.SIGINT else Signalled(number)
        self.signal = number
        self.asked = True
        _say(_FINISHING)

    def _save(self, number: int, frame: FrameType | None) -> None:
        self.save_asked = True
        _say(_SAVING)


def _say(line: bytes) -> None:
    # not print: a signal may arrive in the middle of one; and the terminal may be gone
    with suppress(OSError):
        os.write(2, line)
