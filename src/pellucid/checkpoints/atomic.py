"""Writing so that a crash at any moment leaves either the old thing or the new one, whole.

Comes in: a path and what to write. Goes out: the file or folder under that name. It does not know
what is written.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import safetensors

from pellucid.errors import CheckpointError

#: A folder whose name ends so is unfinished, whoever left it.
PARTIAL = ".partial"


def write_text(path: Path, text: str) -> None:
    """Replace `path` by a file with `text`, all at once.

    Raises:
        CheckpointError: the disk is full or cannot be written; what stood there still stands.
    """
    partial = path.with_name(path.name + PARTIAL)
    with _disk_errors(path):
        partial.write_text(text, encoding="utf-8")
        _sync(partial)
        os.replace(partial, path)
        _sync(path.parent)


def write_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Make the folder `path` from what `write` puts into the empty folder it is given.

    A folder of that name that is already there is replaced: renamed aside, then removed.

    Raises:
        CheckpointError: the disk is full or cannot be written; what stood there still stands.
    """
    partial = path.with_name(path.name + PARTIAL)
    with _disk_errors(path):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            write(partial)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        for file in partial.iterdir():
            _sync(file)
        _sync(partial)
        if path.exists():
            old = path.with_name(path.name + ".old" + PARTIAL)
            shutil.rmtree(old, ignore_errors=True)
            os.replace(path, old)
            os.replace(partial, path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(partial, path)
        _sync(path.parent)


@contextmanager
def _disk_errors(path: Path) -> Generator[None]:
    try:
        yield
    except (OSError, safetensors.SafetensorError) as error:
        full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        why = "the disk is full" if full else str(error)
        raise CheckpointError(
            f"{path} could not be written: {why}; what was saved before is whole: "
            "make room, then resume"
        ) from error


def _sync(path: Path) -> None:
    """Wait until the disk has it: a rename may otherwise arrive before the bytes it names."""
    with suppress(PermissionError):  # Windows cannot open a folder
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
