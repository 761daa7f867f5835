"""Everything pellucid refuses, as one tree, and the one table of exit codes.

Must not know: the cause of a refusal.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a `pellucid` command returns to the shell."""

    SUCCESS = 0
    BAD_INPUT = 2
    NON_FINITE = 3
    FINDINGS = 4
    RANK_LOST = 5
    HUNG_UP = 129
    INTERRUPTED = 130
    UNREAD = 141
    TERMINATED = 143


class PellucidError(Exception):
    """The root of this tree. Its message is one paragraph, on which a user can act."""

    exit_code = ExitCode.BAD_INPUT
    #: Of a training by many processes: whether another one says it; None if nobody knows of it yet.
    is_reported: bool | None = None


class ConfigError(PellucidError):
    """A config key, kind or value that cannot be used."""


class TextError(PellucidError):
    """A corpus or a tokenizer that cannot be used, or a dataset that cannot be had."""


class MathsError(PellucidError, ValueError):
    """An argument that an equation cannot take: its shape, its dtype or its value."""


class CheckpointError(PellucidError):
    """A checkpoint that is damaged, missing, or of an unknown format."""


class RunError(PellucidError):
    """A run folder that is missing, in use, or cannot be continued as it was."""


class LibraryError(PellucidError):
    """A library that an extra of pellucid brings, and that cannot be imported."""


class RankLost(PellucidError):  # noqa: N818  an event, not an error
    """Another process of the same training ended or hangs; the last checkpoint is whole."""

    exit_code = ExitCode.RANK_LOST
    #: The processes that are gone, if that is known.
    ranks: tuple[int, ...] = ()


class NonFiniteError(PellucidError):
    """A value was not finite: weights are refused; a training stops and sets its state aside."""

    exit_code = ExitCode.NON_FINITE


class Interrupted(PellucidError):  # noqa: N818  an event, not an error
    """A signal stopped the work; the message says which state is saved.

    `signal` is the signal's number: 2 (SIGINT, and also a stop by the program itself), 15
    (SIGTERM), 1 (SIGHUP) or 13 (SIGPIPE). The exit code is 128 more, as shells have it.
    """

    exit_code = ExitCode.INTERRUPTED

    def __init__(self, message: str, signal: int = 2) -> None:
        super().__init__(message)
        self.signal = signal
        self.exit_code = ExitCode(128 + signal)


class Signalled(SystemExit):
    """SIGTERM or SIGHUP ends the process now. Not an `Exception`: no part may swallow it."""

    def __init__(self, signal: int) -> None:
        super().__init__(128 + signal)
        self.signal = signal


def signal_of(stop: KeyboardInterrupt | Signalled) -> int:
    """The number of the raised signal: 2 for Ctrl-C."""
    return stop.signal if isinstance(stop, Signalled) else 2
