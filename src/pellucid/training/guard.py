"""The guard between a training and everything that watches it.

If a call raises an exception, the guard reports it once, switches its part off, and the training
continues. Exceptions that end a program pass: `KeyboardInterrupt`, `SystemExit`, and whatever a
signal handler raises while a part happens to work.
"""

from __future__ import annotations

import functools
import logging
import os
import platform
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import torch

from pellucid.version import __version__

_log = logging.getLogger(__name__)
_PACKAGE = str(Path(__file__).parents[1]) + os.sep

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Stopwatch(Protocol):
    """Counts the seconds between `enter` and `finish`, unless `is_inside` says that it does."""

    is_inside: bool

    def enter(self) -> float | None:
        """Begin to count; None if there is nothing to count."""
        ...

    def finish(self, started_at: float) -> None:
        """Count the seconds since then, which `enter` gave."""
        ...


class Guard:
    """Calls the parts of one watch, and switches off those that raise.

    `report` gets the part and the error; by default it writes to the log. Errors of the kinds in
    `reraised` are raised again. `clock` counts the time of the calls.
    """

    def __init__(
        self,
        report: Callable[[str, Exception], None] | None = None,
        *,
        reraised: tuple[type[Exception], ...] = (),
        clock: Stopwatch | None = None,
    ) -> None:
        self._reraised = reraised
        self._clock = clock
        self._report = report or log_error
        #: the parts that are switched off, each with the error in one line
        self.off: dict[str, str] = {}

    def __call__(
        self,
        part: str,
        call: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result | None:
        """The result of the call; None if it raises, and after that without a call."""
        if part in self.off:
            return None
        clock = self._clock
        started_at = None if clock is None or clock.is_inside else clock.enter()
        try:
            return call(*args, **kwargs)
        except Exception as error:
            if isinstance(error, self._reraised) or _comes_from_a_signal(error):
                raise
            self._switch_off(part, error)
            return None
        finally:
            if started_at is not None and clock is not None:
                clock.finish(started_at)

    def _switch_off(self, part: str, error: Exception) -> None:
        self.off[part] = type(error).__name__
        try:
            self.off[part] = error_line(error)
            self._report(part, error)
        except Exception:  # a full disk, or a logger that raises too: the training goes on
            return


class Guarded(Protocol):
    """An object that has a guard."""

    @property
    def guard(self) -> Guard:
        """The guard of this watch."""
        ...


Owner = TypeVar("Owner", bound=Guarded)


def guarded(
    part: str,
) -> Callable[
    [Callable[Concatenate[Owner, Arguments], Result]],
    Callable[Concatenate[Owner, Arguments], Result | None],
]:
    """Decorate a method to run under the guard of its object, as a part of this name."""

    def decorate(
        method: Callable[Concatenate[Owner, Arguments], Result],
    ) -> Callable[Concatenate[Owner, Arguments], Result | None]:
        @functools.wraps(method)
        def call(self: Owner, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Any:
            return self.guard(part, method, self, *args, **kwargs)

        return call

    return decorate


@contextmanager
def silently() -> Generator[None]:
    """Show no warnings, and raise none: a watcher does not warn the user of a training.

    `warnings.catch_warnings` would repeat warnings that were shown once, and two threads that use
    it at the same time can mix up their filters.
    """
    ignore_all: Any = ("ignore", None, Warning, None, 0)
    filters: Any = warnings.filters
    filters.insert(0, ignore_all)
    try:
        yield
    finally:
        for entries in (filters, cast("Any", warnings.filters)):
            entries[:] = [entry for entry in entries if entry is not ignore_all]


def error_line(error: BaseException) -> str:
    """An error in one line: its kind, the first line of its message, and its place."""
    words = next(iter(str(error).splitlines()), "")[:200]
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frames[-1].filename}:{frames[-1].lineno}"] if frames else []
    our_frames = [frame for frame in frames if frame.filename.startswith(_PACKAGE)]
    if our_frames and our_frames[-1] is not frames[-1]:
        places.append(f"called from {our_frames[-1].filename}:{our_frames[-1].lineno}")
    suffix = f" ({', '.join(places)})" if places else ""
    return f"{type(error).__name__}{f': {words}' if words else ''}{suffix}"


def log_error(part: str, error: Exception) -> None:
    """Log which part is switched off, and write the traceback to a file."""
    traceback_text = "".join(traceback.format_exception(error))
    try:
        keep = f"The traceback is in {_write(part, traceback_text)}"
    except OSError:
        keep = f"The traceback:\n{traceback_text}"
    _log.warning(
        "pellucid no longer watches %s: %s. Your training continues unchanged. If the error is not "
        "in your own code, please report it with the traceback. %s",
        part,
        error_line(error),
        keep,
    )


def _write(part: str, traceback_text: str) -> str:
    handle, name = tempfile.mkstemp(prefix="pellucid-watch-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as stream:
        versions = f"pellucid {__version__}, torch {torch.__version__}"
        stream.write(f"{part}\n{versions}, Python {platform.python_version()}\n\n{traceback_text}")
    return name


def _comes_from_a_signal(error: Exception) -> bool:
    """Whether a signal handler raised it: whoever set that handler waits for it in the loop."""
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {_code_of(handler) for handler in handlers if callable(handler)} - {None}
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code in codes for frame, _ in frames)


def _code_of(handler: Any) -> Any:
    if hasattr(handler, "__code__"):
        return handler.__code__
    return getattr(type(handler).__call__, "__code__", None)
