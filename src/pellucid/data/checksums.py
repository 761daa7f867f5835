"""Hashes of files, with a cache for large ones.

A file is not read again if its path, size, times, inode and device are the same as when it was
hashed, as in build tools. The times include the ctime, which no program can set. A file that
changed in the last seconds is not cached: it could change again within the same tick of the clock.
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
from pellucid.reader import file_sha256, read_json_table

#: Smaller files are read every time.
_LARGE = 2**20
#: A file is not cached for so many seconds after its last change.
_SETTLE_SECONDS = 3
#: Marks a file of hashes as pellucid's; any other file stays as it is.
_KEY = "pellucid remembers these hashes"
#: The cache has the latest files, so many.
_MAX_HASHES = 10_000


@cache
def own_code() -> str:
    """A hash of the code that prepares data: other code may prepare other data."""
    room = Path(__file__).parent
    sources = sorted([*room.rglob("*.py"), *(room.parent / "tokenizers").glob("*.py")])
    return hashlib.sha256("".join(map(file_sha256, sources)).encode()).hexdigest()


class HashCache:
    """The hashes of large files, saved in the file `store` for the next process."""

    def __init__(self, store: Path | None) -> None:
        self._store = store
        self._hashes: dict[str, Any] = {}
        self._new = False
        self._is_ours = store is not None and not store.exists()
        if store is None:
            return
        with suppress(PellucidError, LookupError, TypeError, ValueError):
            self._hashes = dict(read_json_table(store)[_KEY])
            self._is_ours = True

    def sha256(self, file: Path) -> str:
        """The hash of a file, from the cache or from reading it."""
        status = os.stat(file)
        if status.st_size < _LARGE:
            return file_sha256(file)
        name, mark = str(file.absolute()), _mark(status)
        match self._hashes.get(name):
            case [stored_mark, str(stored_digest)] if stored_mark == mark:
                return stored_digest
            case _:
                pass
        digest = file_sha256(file)
        is_stable = max(status.st_mtime, status.st_ctime) < time.time() - _SETTLE_SECONDS
        if is_stable and _mark(os.stat(file)) == mark:
            self._hashes.pop(name, None)
            self._hashes[name] = [mark, digest]
            self._new = True
        return digest

    def save(self) -> None:
        """Save new hashes, if the file can be written."""
        if self._store is None or not self._new or not self._is_ours:
            return
        latest = dict(list(self._hashes.items())[-_MAX_HASHES:])
        with suppress(OSError):
            self._store.parent.mkdir(parents=True, exist_ok=True)
            write_text(self._store, json_text({_KEY: latest}))


def _mark(stat: os.stat_result) -> list[int]:
    times = [stat.st_mtime_ns, stat.st_ctime_ns]
    return [stat.st_size, *times, stat.st_ino, stat.st_dev]
