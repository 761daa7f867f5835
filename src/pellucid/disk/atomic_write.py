"""Writing so that a crash at any moment leaves either the old thing or the new one, whole.

For places that are pellucid's own; what the user names goes through `outputs`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pellucid.disk.removal import MARK, remove, remove_file, write_mark
from pellucid.disk.rename import move, sync
from pellucid.disk.unfinished_folder import PARTIAL, Partial, is_free

#: How a file is called while it is written, in its unfinished folder.
_CONTENT = "content"


def write_text(path: Path, text: str) -> None:
    """Replace `path` by a file with `text`, all at once.

    Raises:
        OSError: the disk is full or cannot be written; what stood there still stands.
    """
    # as a text file has it on this system
    write_bytes(path, text.replace("\n", os.linesep).encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by a file with `content`, all at once.

    Raises:
        OSError: as `write_text`.
    """
    partial = Partial(path, (_CONTENT,))
    try:
        file = partial.path / _CONTENT
        file.write_bytes(content)
        sync(file)
        move(file, partial.target)
        sync(partial.target.parent)
    finally:
        partial.remove()


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
        OSError: the disk is full or cannot be written, or something is in the way; what stood there
            still stands.
    """
    partial = Partial(path, files)
    try:
        write(partial.path)
        for file in partial.path.iterdir():
            sync(file)
        sync(partial.path)
        if not replace or is_free(partial.target):
            partial.place()
        else:
            _exchange(partial, files)
        sync(partial.target.parent)
    except BaseException:
        partial.remove()
        raise


def _exchange(partial: Partial, files: Sequence[str]) -> None:
    """Put a finished folder in the place of another, of which `files` go and all else stays."""
    target = partial.target
    old = _temporary_name(target)
    write_mark(target, target, files)
    move(target, old)
    try:
        partial.place()
    except BaseException:
        move(old, target)
        remove_file(target / MARK)
        raise
    remove(old, (*files, MARK))
    if old.exists():
        for entry in old.iterdir():
            if not os.path.lexists(target / entry.name):
                move(entry, target / entry.name)
        remove(old, (MARK,))


def _temporary_name(target: Path) -> Path:
    """A name beside `target` that nothing has."""
    number = 2
    while os.path.lexists(target.with_name(f"{target.name}.{number}{PARTIAL}")):
        number += 1
    return target.with_name(f"{target.name}.{number}{PARTIAL}")
