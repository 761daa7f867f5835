"""Files that the user names: `--html`, `--out`, `--svg` and the like.

The last line of a file that pellucid writes holds the SHA-256 of the text before it. So pellucid
recognises its own unchanged file, and replaces it. It refuses to replace any other file. Formats
without comments have no such line, and pellucid never replaces them.
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
#: The begin and end of a comment, by the suffix of a file.
_COMMENTS = {
    ".html": ("<!-- ", " -->"),
    ".htm": ("<!-- ", " -->"),
    ".svg": ("<!-- ", " -->"),
    ".toml": ("# ", ""),
}


def check_output(path: Path) -> None:
    """Refuse a path that would replace a file which pellucid did not write.

    Raises:
        PellucidError: there is a folder, or a file that is not ours or has changed; or the parent
            folder is missing.
    """
    if not path.parent.is_dir():
        raise PellucidError(f"{path} cannot be written: make the folder {path.parent} first")
    if path.is_dir():
        raise PellucidError(f"{path} is a folder: name a file in it")
    if path.exists() and not _is_stream(path) and not _is_ours(path):
        raise PellucidError(
            f"{path} is there already, and is not as pellucid wrote it: pellucid does not "
            "overwrite it; move it away or delete it, or name another file"
        )


def write_output(path: Path, text: str) -> int:
    """Write a file that the user named, all at once; returns its number of bytes.

    Raises:
        PellucidError: as `check_output`.
        OSError: the disk is full, or cannot be written.
    """
    content = sealed(path, text)
    write_output_bytes(path, content)
    return len(content)


def write_output_bytes(path: Path, content: bytes) -> None:
    """As `write_output`, for bytes without a last line of ours.

    Raises:
        PellucidError, OSError: as `write_output`.
    """
    check_output(path)
    if _is_stream(path):
        path.write_bytes(content)
    else:
        write_bytes(Path(os.path.realpath(path)), content)  # a link stays a link


def sealed(path: Path, text: str) -> bytes:
    """The bytes of a file, with the last line by which pellucid recognises it."""
    content = text.encode()
    comment = _COMMENTS.get(path.suffix.lower())
    return content if comment is None else content + _line(content, comment)


def free_name(path: Path) -> Path:
    """The path, or the first unused one of its numbered names."""
    number, free = 2, path
    while free.exists() or free.is_symlink():
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return free


def set_aside(path: Path) -> Path:
    """Rename the file at `path` to an unused name, and return that."""
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
    """Whether `path` is a pipe, a terminal or the null device: writing replaces no file."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    kinds: tuple[Callable[[int], bool], ...] = (stat.S_ISFIFO, stat.S_ISCHR, stat.S_ISSOCK)
    return any(is_kind(mode) for is_kind in kinds)
