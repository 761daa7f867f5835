"""Signals while a run is prepared and trained.

    SIGINT (Ctrl-C), SIGTERM, SIGHUP   before the first step: stop at once, there is nothing to save
                                       later: finish the step and save; a second one stops at once
    SIGUSR1                            save after this step, and go on
    SIGPIPE                            the reader of the output has ended, as `head` does after its
                                       lines: finish the step and save

Signals set flags; before the first step, and the second time, they raise exceptions.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType, TracebackType
from typing import NamedTuple

from pellucid import signals
from pellucid.errors import Interrupted, PellucidError, Signalled, signal_of
from pellucid.parallel import World

_FINISHING = b"\nfinishing this step, then saving; once more to stop now\n"
_SAVING = b"\nsaving after this step, then going on\n"

BEFORE_A_STEP = "before the first step: there is nothing to save"
_IMMEDIATELY = "at once: nothing was saved since the last checkpoint"


def interruption(step: int, number: int | None) -> Interrupted:
    """The exception that ends a run after `step` steps, by a signal or by your own code."""
    cause = "" if number is None else f" by {signals.name_of(number)}"
    moment = f"after step {step}; the state is saved" if step else BEFORE_A_STEP
    return Interrupted(f"stopped{cause} {moment}", number or signal.SIGINT)


def first_failure(world: World, failure: PellucidError | None) -> PellucidError | None:
    """The failure of this rank; of a rank without one, that of the first rank that has one.

    Args:
        world: the ranks, which all call this.
        failure: of this rank.
    """
    messages = world.gather("" if failure is None else str(failure))
    failed = [rank for rank, message in enumerate(messages) if message]
    if failure is not None or not failed:
        return failure
    return PellucidError(f"rank {failed[0]} of {world.size}: {messages[failed[0]]}")


class Requests(NamedTuple):
    """What a signal or a key asked a training for, on any rank."""

    stop: bool
    save: bool
    sample: bool
    #: whether a rank cannot make the next update
    failed: bool


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
        #: whether to show a sample after this step; a training in one process does
        self.sample_asked = False
        #: the signal that set `asked`; None if your own code did
        self.signal: int | None = None
        self._looping = self._has_looped = False
        self._settle_time = 0.0
        #: seconds in which a repeated signal counts as the first: torchrun repeats what it hears
        self.settle_seconds = 0.0
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

    def stop_unread(self) -> None:
        """Ask to stop after this step, as SIGPIPE ends other tools: nobody reads the output."""
        if not self.asked:
            self._ask(signals.UNREAD)

    def agree_with(self, world: World, *, failed: bool = False) -> Requests:
        """What any rank was asked for since the last call; all ranks get the same answer.

        A request to save or to sample counts once.

        Args:
            world: the ranks.
            failed: whether this rank cannot make the next update.
        """
        stop = 1 + (self.signal or 0) if self.asked else 0
        stop, save, sample, any_failed = world.largest(
            stop, int(self.save_asked), int(self.sample_asked), int(failed)
        )
        # set, never cleared: a signal may come at any moment
        if stop:
            self._ask(stop - 1 if stop > 1 else None)
        if save:
            self.save_asked = False
        if sample:
            self.sample_asked = False
        return Requests(stop > 0, save > 0, sample > 0, any_failed > 0)

    @contextmanager
    def finishing_steps(self) -> Generator[None]:
        """Within it, the first signal only asks; the loop ends when its step is saved."""
        self._looping = self._has_looped = True
        try:
            yield
        finally:
            self._looping = False

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self.asked and time.monotonic() < self._settle_time:
            return
        if self.asked or not self._looping:
            raise KeyboardInterrupt if number == signal.SIGINT else Signalled(number)
        self._ask(number)
        self._settle_time = time.monotonic() + self.settle_seconds
        _print(_FINISHING)

    def _ask(self, number: int | None) -> None:
        self.signal = number
        self.asked = True

    def _save(self, number: int, frame: FrameType | None) -> None:
        self.save_asked = True
        _print(_SAVING)


def _print(line: bytes) -> None:
    # not print: a signal may arrive in the middle of one; and the terminal may be gone
    with suppress(OSError):
        os.write(2, line)
