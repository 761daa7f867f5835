"""Files that the user names: `--html`, `--out`, `--svg` and the like.

A file of ours ends in a line that holds the SHA-256 of all that stands before it. So pellucid knows
what it wrote itself, and that nobody changed it since; such a file is replaced. Any other file is
refused. Formats that have no comments carry no such line, and are never replaced.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from pellucid.disk.atomic_write import write_bytes
from pellucid.disk.rename import move
from pellucid.errors import PellucidError

_WORDS = "written by pellucid, sha256"
#: How a comment begins and ends, by the end of the file's name.
_COMMENTS = {
    ".html": ("<!-- ", " -->"),
    ".htm": ("<!-- ", " -->"),
    ".svg": ("<!-- ", " -->"),
    ".toml": ("# ", ""),
}


def check_output(path: Path) -> None:
    """Refuse a place that holds something which pellucid did not write.

    Raises:
        PellucidError: there is a folder, or a file that is not ours or was changed since; or the
            folder that it is to lie in is not there.
    """
    if not path.parent.is_dir():
        raise PellucidError(f"{path} cannot be written: make the folder {path.parent} first")
    if path.is_dir():
        raise PellucidError(f"{path} is a folder: name a file in it")
    if path.exists() and not _is_stream(path) and not _is_ours(path):
        raise PellucidError(
            f"{path} is there already, and is not as pellucid wrote it: it is not overwritten; "
            "move it away or delete it, or name another file"
        )


def write_output(path: Path, text: str) -> int:
    """Write a file that the user named, all at once; how many bytes it has.

    Raises:
        PellucidError: as `check_output`.
        OSError: the disk is full, or cannot be written.
    """
    content = sealed(path, text)
    write_output_bytes(path, content)
    return len(content)


def write_output_bytes(path: Path, content: bytes) -> None:
    """The same, of bytes that stay as they are.

    Raises:
        PellucidError, OSError: as `write_output`.
    """
    check_output(path)
    if _is_stream(path):
        path.write_bytes(content)
    else:
        write_bytes(Path(os.path.realpath(path)), content)  # a link goes on to be one


def sealed(path: Path, text: str) -> bytes:
    """The bytes of a file, with the line at its end by which it is known again."""
    content = text.encode()
    comment = _COMMENTS.get(path.suffix.lower())
    return content if comment is None else content + _line(content, comment)


def free_name(path: Path) -> Path:
    """The path, or the first of its numbered names that is not taken."""
    number, free = 2, path
    while free.exists() or free.is_symlink():
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return free


def set_aside(path: Path) -> Path:
    """Rename what is at `path` to a name that is free, and say which."""
    free = free_name(path)
    move(path, free)
    return free


def _line(content: bytes, comment: tuple[str, str]) -> bytes:
    opening, closing = comment
    return f"\n{opening}{_WORDS} {hashlib.sha256(content).hexdigest()}{closing}\n".encode()


def _is_ours(path: Path) -> bool:
    comment = _COMMENTS.get(path.suffix.lower())
    if comment is None or not path.is_file():
        return False
    content = path.read_bytes()
    length = len(_line(b"", comment))
    return content[-length:] == _line(content[:-length], comment)


def _is_stream(path: Path) -> bool:
    """Whether writing there replaces nothing: a pipe, a terminal, the null device."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    kinds: tuple[Callable[[int], bool], ...] = (stat.S_ISFIFO, stat.S_ISCHR, stat.S_ISSOCK)
    return any(is_kind(mode) for is_kind in kinds)
