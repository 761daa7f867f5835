"""Removing files that pellucid wrote, and no others: the one place where it deletes files.

A folder that pellucid writes holds a mark, which lists the names that pellucid may put there. Only
regular files with a listed name are removed, and a folder only once it is empty. pellucid never
follows links. A file of yours in such a folder stays, and so does the folder.
"""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from pellucid.json_text import json_text

#: The file that marks an unfinished folder as ours.
MARK = ".pellucid-unfinished"
#: The lock file of the process that writes an unfinished folder.
LOCK = ".pellucid-lock"

_FIRST_LINE = "pellucid writes this folder; it may remove the files that are listed below"
_LONGEST = 2**16


def write_mark(folder: Path, target: Path, files: Sequence[str]) -> None:
    """Mark `folder` as the future `target`; `files` are our names in it (patterns with `/`)."""
    text = "\n".join([_FIRST_LINE, json_text(target.name), *files, ""])
    (folder / MARK).write_text(text, encoding="utf-8")


def read_mark(folder: Path, target: Path | None = None) -> tuple[str, ...] | None:
    """The names in a folder's mark; None if it is not ours, or belongs to another target."""
    mark = folder / MARK
    try:
        if folder.is_symlink() or mark.is_symlink() or mark.stat().st_size > _LONGEST:
            return None
        first, name, *files = mark.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        return None
    is_ours = first == _FIRST_LINE and (target is None or name == json_text(target.name))
    return tuple(file for file in files if file) if is_ours else None


def clear(folder: Path, files: Sequence[str], keep: Container[str] = ()) -> None:
    """Remove the listed files below a folder.

    The mark of an unfinished folder of ours in it says what goes there.

    Args:
        folder: the folder; a link is left alone.
        files: the names of files to remove, as patterns.
        keep: names at the top of the folder that stay.
    """
    try:
        entries = [] if folder.is_symlink() else list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.name in keep:
            continue
        if entry.is_dir(follow_symlinks=False):
            marked_files = read_mark(Path(entry.path))
            inner = (
                _patterns_below(entry.name, files)
                if marked_files is None
                else (*marked_files, MARK, LOCK)
            )
            if inner:
                remove(Path(entry.path), inner)
        elif entry.is_file(follow_symlinks=False) and _matches(entry.name, files):
            remove_file(Path(entry.path))


def remove(folder: Path, files: Sequence[str]) -> None:
    """Remove the listed files below a folder, and the folder once it is empty."""
    clear(folder, files)
    remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove a folder if it is empty and not a link."""
    with suppress(OSError):
        os.rmdir(folder)


def remove_file(file: Path) -> None:
    """Remove one file of ours; of a link, never the target."""
    with suppress(OSError):
        os.unlink(file)


def _matches(name: str, files: Sequence[str]) -> bool:
    return any("/" not in file and fnmatchcase(name, file) for file in files)


def _patterns_below(folder: str, files: Sequence[str]) -> tuple[str, ...]:
    """The listed names of the files in `folder`."""
    parted = (file.partition("/") for file in files)
    return tuple(inner for outer, _, inner in parted if inner and fnmatchcase(folder, outer))
