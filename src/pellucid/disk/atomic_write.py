"""Atomic writing: a crash at any moment leaves either the old file or the new one, complete.

For pellucid's own files; `outputs` writes the files that you name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pellucid.disk.removal import MARK, remove, remove_file, write_mark
from pellucid.disk.rename import move, sync
from pellucid.disk.unfinished_folder import PARTIAL, Partial, is_free

#: The name of a file in its unfinished folder while pellucid writes it.
_CONTENT = "content"


def write_text(path: Path, text: str) -> None:
    """Replace `path` by a file with `text`, all at once.

    Raises:
        OSError: the disk is full or cannot be written; the old file stays.
    """
    # the line ends of a text file on this system
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
    """Make the folder `path`.

    Args:
        path: the folder.
        files: the names that `write` gives its files.
        write: puts the files into an empty folder.
        replace: whether there may be a folder already. Then `files` in it are replaced, and its
            other files stay.

    Raises:
        OSError: the disk is full or cannot be written, or something is in the way; the old folder
            stays.
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
    """Replace the listed files of a folder by a finished folder; other files stay."""
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
    """An unused name next to `target`."""
    number = 2
    while os.path.lexists(target.with_name(f"{target.name}.{number}{PARTIAL}")):
        number += 1
    return target.with_name(f"{target.name}.{number}{PARTIAL}")
