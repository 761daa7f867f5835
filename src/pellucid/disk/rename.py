"""Renaming, waiting for the disk, and its free space."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

_WINDOWS = os.name == "nt"
#: The number of attempts to rename: for about a second.
_PATIENCE = 20


def move(source: Path, target: Path) -> None:
    """Rename; on Windows try again while another process reads `target`.

    A folder never replaces one that is not empty: the system refuses that.
    """
    for _ in range(_PATIENCE if _WINDOWS else 0):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            time.sleep(0.05)
    os.replace(source, target)


def free_bytes(path: Path) -> int:
    """The free space of the disk that a path is on, or would be on once it exists."""
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    return shutil.disk_usage(existing).free


def sync(path: Path) -> None:
    """Wait until the disk has it: otherwise a rename may arrive before the content of the file."""
    if _WINDOWS and path.is_dir():
        return  # Windows opens no folder; its file system keeps a journal of names
    with suppress(PermissionError):  # a folder that may be written to but not read
        # Windows syncs only files that are open for writing
        descriptor = os.open(path, os.O_RDWR if _WINDOWS else os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
