"""Saving state all at once, with refusals that say what is still whole.

Comes in: a path and what to write. Goes out: the file or folder under that name. It does not know
what is written.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import safetensors

from pellucid import disk
from pellucid.errors import CheckpointError


def write_text(path: Path, text: str) -> None:
    """Replace `path` by a file with `text`, all at once.

    Raises:
        CheckpointError: the disk is full or cannot be written; what stood there still stands.
    """
    with _disk_errors(path):
        disk.write_text(path, text)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by a file with `content`, all at once.

    Raises:
        CheckpointError: the disk is full or cannot be written; what stood there still stands.
    """
    with _disk_errors(path):
        disk.write_bytes(path, content)


def write_folder(
    path: Path,
    files: Sequence[str],
    write: Callable[[Path], None],
    *,
    replace: bool = False,
) -> None:
    """Make the folder `path` from what `write` puts into the empty folder it is given.

    Args:
        files: the names that `write` gives its files.
        replace: whether there may be a folder already, in which `files` are ours: they are
            replaced, and all else in it stays where it is.

    Raises:
        CheckpointError: the disk is full or cannot be written, or something is in the way; what
            stood there still stands.
    """
    with _disk_errors(path):
        disk.write_folder(path, files, write, replace=replace)


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
