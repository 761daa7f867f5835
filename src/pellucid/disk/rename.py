"""Renaming, and waiting for the disk."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_WINDOWS = os.name == "nt"
#: How often a rename is tried again: for about a second.
_PATIENCE = 20


def move(source: Path, target: Path) -> None:
    """Rename; on Windows with patience: whoever reads `target` at this moment is in the way.

    A folder never takes the place of one that holds something: the system refuses that.
    """
    for _ in range(_PATIENCE if _WINDOWS else 0):
        try:
            os.replace(source, target)
            return
        except PermissionError:
            time.sleep(0.05)
    os.replace(source, target)


def sync(path: Path) -> None:
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
