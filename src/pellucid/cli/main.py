"""The command `pellucid`: its verbs, its flags, its exit codes.

0  done    2  bad input    3  stopped on a value that is not finite    4  findings    5  a lost rank
129, 130, 143  stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM; 141: nobody reads a training's output
"""

from __future__ import annotations

import argparse
import atexit
import gc
import logging
import os
import sys
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from signal import SIGINT
from types import FrameType
from typing import Any

from pellucid import children
from pellucid.cli import welcome
from pellucid.cli.flags.parsing import Parser, add_completion
from pellucid.cli.groups import add_verbs
from pellucid.cli.one_voice import one_voice
from pellucid.cli.output.printing import print_error, replace_unknown_letters
from pellucid.config import with_new_flags
from pellucid.cores import let_waiting_threads_sleep
from pellucid.errors import (
    ConfigError,
    ExitCode,
    Interrupted,
    PellucidError,
    Signalled,
    signal_of,
)
from pellucid.free_memory import forcing, keep_freed_memory
from pellucid.old_names import OldNameWarning
from pellucid.reader import is_panic
from pellucid.signals import ENDING, end_at_once, handled, name_of, settle_code, take
from pellucid.version import __version__

_EPILOG = """\
`pellucid` alone says what you can do from here, and `pellucid COMMAND --help` begins with examples.

exit codes: 0 done, 2 bad input, 3 stopped on a value that is not finite, 4 findings with --fail-on,
5 a lost rank, 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP, 141 by the end of its reader"""

_OUT_OF_MEMORY = PellucidError(
    "memory ran out; all checkpoints are complete, and the same command continues: give this "
    "process more memory, or use a smaller model, batch or vocabulary"
)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    root = Parser(
        is_root=True,
        prog="pellucid",
        usage="pellucid COMMAND ...",
        description="Train transformer language models you can see through.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"pellucid {__version__}")
    root.add_argument(
        "--plain-memory",
        action="store_true",
        help="use the allocator of the system: by default pellucid keeps freed memory for the next "
        "step, in huge pages",
    )
    add_completion(root)
    root.set_defaults(when_stopped="at once", json=False, huge_pages=True, call=welcome.call)
    verbs = root.add_subparsers(
        dest="command", metavar="COMMAND", prog="pellucid", help=argparse.SUPPRESS
    )
    root.description = f"{root.description}\n\n{add_verbs(verbs)}"
    root.epilog = _EPILOG
    return root


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    SIGTERM and SIGHUP end a command as Ctrl-C does: it clears up first. A second signal ends it at
    once. A training handles them itself.

    Args:
        words: the command; by default the one that this process was started with. Its signals are
            ours to its end: one that comes after the work changes nothing of the exit code.
    """
    ending = _Ending()
    with _short_warnings():
        if words is not None:
            with handled(ENDING, ending):
                return _answer(words, ending)
        take(ENDING, ending)
        # to load torch makes hundreds of thousands of objects and no garbage: looking for it every
        # 700 objects takes half a second
        gc.set_threshold(20_000, 20, 50)
        # what lives at the end goes with the process: looking for cycles in it takes half a second
        atexit.register(gc.freeze)
        try:
            code = _answer(sys.argv[1:], ending)
        except SystemExit as stop:  # flags that cannot be parsed, or --help
            settle_code(stop.code if isinstance(stop.code, int) else 0)
            raise
        settle_code(code)
        return code


class _Ending:
    """The handler of signals: the first raises, a later one waits for nothing."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            end_at_once(number, frame)
        self.number = number
        raise _stop(number)

    @contextmanager
    def signal_first(self) -> Generator[None]:
        """Within it, a library's own error in the place of what a signal raised is that again."""
        try:
            yield
        except BaseException:
            if self.number is None:
                raise
            raise _stop(self.number) from None


def _stop(number: int) -> KeyboardInterrupt | Signalled:
    return KeyboardInterrupt() if number == SIGINT else Signalled(number)


def _answer(words: Sequence[str], ending: _Ending) -> int:
    code = ExitCode.SUCCESS
    arguments = argparse.Namespace(when_stopped="at once")
    try:
        words = with_new_flags(list(words))
        if words[:1] == ["help"]:
            words = [*words[1:], "--help"]
        arguments = parser().parse_args(words)
        _choose_colours(arguments.color)
        if not arguments.plain_memory:
            keep_freed_memory(huge_pages=arguments.huge_pages)
        let_waiting_threads_sleep()
        os.environ.update(children.environment())
        replace_unknown_letters()
        level = logging.INFO if arguments.verbose else logging.WARNING
        logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
        with forcing(getattr(arguments, "force", False)):
            code = _run(words, arguments, ending)
    except (KeyboardInterrupt, Signalled) as stop:
        ending.number = signal_of(stop)  # a training handles the first itself
        code = _report(_stopped(stop, arguments), as_json=False)
    finally:
        _drop_closed_streams()
    return code


def _choose_colours(color: str) -> None:
    """What the flag says, in the variables that rich and every child reads."""
    match color:
        case "always":
            os.environ.pop("NO_COLOR", None)
            os.environ["FORCE_COLOR"] = "1"
        case "never":
            os.environ.pop("FORCE_COLOR", None)
            os.environ["NO_COLOR"] = "1"
        case _:
            pass


@contextmanager
def _short_warnings() -> Generator[None]:
    """A warning about an old name is one line, without a place in the source."""
    python_format = warnings.formatwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> str:
        if issubclass(category, OldNameWarning):
            return f"warning: {message}\n"
        return python_format(message, category, *place, **options)

    warnings.formatwarning = show
    try:
        yield
    finally:
        warnings.formatwarning = python_format


def _run(words: Sequence[str], arguments: argparse.Namespace, ending: _Ending) -> ExitCode:
    try:
        _refuse_broken_text(words)
        with ending.signal_first(), one_voice(arguments):
            code: ExitCode | None = arguments.call(arguments)
        sys.stdout.flush()
    except PellucidError as error:
        return _report(error, as_json=arguments.json)
    except BrokenPipeError:  # the reader, such as `head`, has enough
        return ExitCode.SUCCESS
    except OSError as error:
        return _report(_disk_error(error), as_json=arguments.json)
    except MemoryError:
        return _report(_OUT_OF_MEMORY, as_json=arguments.json)
    except BaseException as error:
        if not is_panic(error):
            raise
        return _report(_tokenizer_error(error), as_json=arguments.json)
    return ExitCode.SUCCESS if code is None else code


def _stopped(stop: KeyboardInterrupt | Signalled, arguments: argparse.Namespace) -> Interrupted:
    number = signal_of(stop)
    return Interrupted(f"stopped by {name_of(number)} {arguments.when_stopped}", number)


def _report(error: PellucidError, *, as_json: bool) -> ExitCode:
    if error.is_reported:  # by another rank
        return error.exit_code
    with suppress(OSError):  # the terminal is gone
        print_error(error, as_json=as_json)
    return error.exit_code


def _drop_closed_streams() -> None:
    """Drop streams without a reader; Python would print an error about them at its end."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except (OSError, ValueError):
            setattr(sys, name, None)


def _disk_error(error: OSError) -> PellucidError:
    file = "a file" if error.filename is None else str(error.filename)
    match error:
        case IsADirectoryError():
            advice = "move the folder away, or name another file"
        case NotADirectoryError() | FileExistsError():
            advice = "move the file away, or name another folder"
        case PermissionError():
            advice = "check its permissions, and try again"
        case _:
            advice = "make room, and try again: earlier checkpoints are complete"
    return PellucidError(f"{file} cannot be read or written: {error.strerror or error}; {advice}")


def _tokenizer_error(panic: BaseException) -> PellucidError:
    return PellucidError(
        f"the library of the tokenizer failed on this text ({str(panic)[:200]}): its "
        "tokenizer.json is damaged, or was not made for this text; train or download the tokenizer "
        "again"
    )


def _refuse_broken_text(words: Sequence[str]) -> None:
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"the argument {word!r} is not UTF-8: it cannot be read") from None
