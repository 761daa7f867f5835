"""Saving state all at once, with refusals that say what is still whole.

Comes in: a path and what to write. Goes out: the file or folder under that name. It does not know
what is written.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec

import safetensors

from pellucid import disk
from pellucid.errors import CheckpointError

P = ParamSpec("P")


def _in_words(write: Callable[Concatenate[Path, P], None]) -> Callable[Concatenate[Path, P], None]:
    """The same; errors of the disk become a `CheckpointError` that says what is still whole."""

    @wraps(write)
    def written(path: Path, *args: P.args, **names: P.kwargs) -> None:
        with _disk_errors(path):
            write(path, *args, **names)

    return written


@contextmanager
def _disk_errors(path: Path) -> Generator[None]:
    try:
        yield
    except FileExistsError as error:
        raise CheckpointError(
            f"{error.filename or path} is in the way: {error.strerror}; nothing was written over: "
            "move it away, then resume"
        ) from error
    except (OSError, safetensors.SafetensorError) as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        why = "the disk is full" if full else str(error)
        raise CheckpointError(
            f"{path} could not be written: {why}; what was saved before is whole: "
            "make room, then resume"
        ) from error


write_text = _in_words(disk.write_text)
write_bytes = _in_words(disk.write_bytes)
write_folder = _in_words(disk.write_folder)
