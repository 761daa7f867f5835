"""The hashes of files, remembered where a file is large and the system vouches that it is the same.

A file of which path, size, times, number and device are what they were when it was hashed is not
read again: what build tools trust too. The time of the last change of a file's entry (ctime) is
among them, which no program can set. A file that was changed in the last seconds is not
remembered, since it could change once more within the same tick of the clock.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from pellucid.disk import write_text
from pellucid.errors import PellucidError
from pellucid.json_text import json_text
from pellucid.reader import read_json_table

#: Smaller files are read every time.
_LARGE = 2**20
#: A file is not remembered for so many seconds after its last change.
_SETTLED = 3
#: By this key a file of hashes is known for ours; another one is left as it is.
_OURS = "pellucid remembers these hashes"
#: How many files are remembered, the latest.
_MOST_REMEMBERED = 10_000


def file_sha256(file: Path) -> str:
    """The SHA-256 of a file, read from its first byte to its last."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@cache
def own_code() -> str:
    """A hash of the code that prepares text: with other code, it may become other text."""
    room = Path(__file__).parent
    sources = sorted([*room.rglob("*.py"), *(room.parent / "tokenizers").glob("*.py")])
    return hashlib.sha256("".join(map(file_sha256, sources)).encode()).hexdigest()


class HashCache:
    """The hashes of large files, kept in the file `store` from one process to the next, if any."""

    def __init__(self, store: Path | None) -> None:
        self._store = store
        self._known: dict[str, Any] = {}
        self._new = False
        self._is_ours = store is not None and not store.exists()
        if store is None:
            return
        with suppress(PellucidError, LookupError, TypeError, ValueError):
            self._known = dict(read_json_table(store)[_OURS])
            self._is_ours = True

    def sha256(self, file: Path) -> str:
        """The hash of a file, as it is remembered or by reading it."""
        status = os.stat(file)
        if status.st_size < _LARGE:
            return file_sha256(file)
        name, mark = str(file.absolute()), _mark(status)
        match self._known.get(name):
            case [stored_mark, str(stored_digest)] if stored_mark == mark:
                return stored_digest
            case _:
                pass
        digest = file_sha256(file)
        settled = max(status.st_mtime, status.st_ctime) < time.time() - _SETTLED
        if settled and _mark(os.stat(file)) == mark:
            self._known.pop(name, None)
            self._known[name] = [mark, digest]
            self._new = True
        return digest

    def save(self) -> None:
        """Keep what was learned, where the place can be written."""
        if self._store is None or not self._new or not self._is_ours:
            return
        latest = dict(list(self._known.items())[-_MOST_REMEMBERED:])
        with suppress(OSError):
            self._store.parent.mkdir(parents=True, exist_ok=True)
            write_text(self._store, json_text({_OURS: latest}))


def _mark(stat: os.stat_result) -> list[int]:
    times = [stat.st_mtime_ns, stat.st_ctime_ns]
    return [stat.st_size, *times, stat.st_ino, stat.st_dev]
