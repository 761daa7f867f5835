"""Writing so that a crash at any moment leaves either the old thing or the new one, whole.

Comes in: a path and what to write. Goes out: the file or folder under that name. It does not know
what is written.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import safetensors

from pellucid.errors import CheckpointError

#: A folder whose name ends so is unfinished, whoever left it.
PARTIAL = ".partial"

_WINDOWS = os.name == "nt"
#: How often a rename is tried again: for about a second.
_PATIENCE = 20


def write_text(path: Path, text: str) -> None:
    """Replace `path` by a file with `text`, all at once.

    Raises:
        CheckpointError: the disk is full or cannot be written; what stood there still stands.
    """
    # as a text file has it on this system
    write_bytes(path, text.replace("\n", os.linesep).encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by a file with `content`, all at once.

    Raises:
        CheckpointError: the disk is full or cannot be written; what stood there still stands.
    """
    partial = path.with_name(path.name + PARTIAL)
    with _disk_errors(path):
        partial.write_bytes(content)
        _sync(partial)
        _replace(partial, path)
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
            _replace(path, old)
            _replace(partial, path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            _replace(partial, path)
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
    if _WINDOWS and path.is_dir():
        return  # Windows opens no folder; its file system keeps a journal of names
    with suppress(PermissionError):  # a folder that may be written to but not read
        # Windows syncs only what is open for writing
        descriptor = os.open(path, os.O_RDWR if _WINDOWS else os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _replace(source: Path, target: Path) -> None:
    """Rename; on Windows with patience: whoever reads `target` at this moment is in the way."""
    for _ in range(_PATIENCE if _WINDOWS else 0):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            time.sleep(0.05)
    os.replace(source, target)
