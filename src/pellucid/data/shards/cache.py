"""Shards of tokens on this machine, one file each, named by its SHA-256.

The processes of a machine share the folder, and the memory of what they map. One of them fetches at
a time; the others find its files. When the bound is reached, the files that were used longest ago
go. A file that another process still maps stays readable for it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import numpy.typing as npt

from pellucid.cache_dir import cache_folder, private_folder
from pellucid.data.manifest import TOKENS, ShardTable
from pellucid.disk import free_bytes, move, remove_file
from pellucid.errors import ConfigError, TextError
from pellucid.hub import ByteRange, UrlStore

Shard = npt.NDArray[Any]

#: Shards to ask for at once, and their bytes: more of them hold up a process that waits for one.
_AT_ONCE, _BYTES_AT_ONCE = 64, 2**27
#: The variable with the bytes that all files of the cache may have; without it, 64 GiB.
_BOUND, _DEFAULT_BOUND = "PELLUCID_SHARD_BYTES", 64 * 2**30
_LOCK, _UNFINISHED = ".lock", ".unfinished"
#: Bytes of the disk that stay free.
_LEFT_FREE = 2**28


class ShardCache:
    """The shards of one file of tokens.

    Args:
        url: of the prepared folder.
        table: how the file is cut.
        digests: the SHA-256 of each shard, (shards, 32).

    Raises:
        ConfigError: the bound of the cache is no number, or smaller than a shard.
        TextError: there is no folder for a cache.
    """

    def __init__(self, url: str, table: ShardTable, digests: Shard) -> None:
        bound = _find_bound()
        if bound < table.shard_bytes:
            raise ConfigError(
                f"{_BOUND}={bound}: the cache does not hold one shard of {url}, which has "
                f"{table.shard_bytes:,} bytes: set it to {1024 * table.shard_bytes} or more"
            )
        self._store = UrlStore(url)
        self._table, self._digests, self._bound = table, digests, bound
        self._folder = _find_folder(url)
        # a lock of each thread's own
        self._lock = filelock.FileLock(self._folder / _LOCK)
        #: The shards whose file this process has compared with its name.
        self._verified: set[int] = set()
        #: How many shards may be fetched ahead, and how many are asked for at once.
        self.n_ahead = bound // 2 // table.shard_bytes
        self.at_once = max(1, min(_AT_ONCE, min(bound, _BYTES_AT_ONCE) // table.shard_bytes))

    def take(self, numbers: Sequence[int]) -> list[Shard]:
        """The tokens of some shards, at most `at_once`; those that are missing are fetched.

        Args:
            numbers: of the shards.

        Raises:
            TextError: a shard cannot be fetched, or its checksum is wrong; or the disk is full.
        """
        shards = {number: self._open(number) for number in numbers}
        if any(shard is None for shard in shards.values()):
            try:
                with self._lock:
                    shards |= self._fetch(numbers)
            except OSError as error:
                raise TextError(
                    f"shards of {self._store.url} cannot be kept in {self._folder} "
                    f"({error.strerror or error}): make room there, set PELLUCID_CACHE to another "
                    f"folder, or {_BOUND} to fewer bytes"
                ) from None
        return [shard for shard in shards.values() if shard is not None]

    def is_here(self, number: int) -> bool:
        """Whether a shard has a file."""
        return self._file(number).exists()

    def _fetch(self, numbers: Sequence[int]) -> dict[int, Shard]:
        """Fetch what is still missing, now that no other process does."""
        shards = {number: self._open(number) for number in numbers}
        missing = [number for number, shard in shards.items() if shard is None]
        ranges = [self._range(number) for number in missing]
        contents = self._store.read_ranges(TOKENS, ranges) if missing else []
        self._make_room(sum(map(len, contents)))
        for number, content in zip(missing, contents, strict=True):
            unfinished = self._folder / _UNFINISHED
            unfinished.write_bytes(content)
            move(unfinished, self._file(number))
            self._verified.add(number)
            shards[number] = np.frombuffer(content, dtype=self._table.dtype)
        return {number: shard for number, shard in shards.items() if shard is not None}

    def _open(self, number: int) -> Shard | None:
        """Map the file of a shard; None if there is none, or it is damaged."""
        file = self._file(number)
        try:
            shard = np.memmap(file, dtype=self._table.dtype, mode="r")
        except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
            return None
        if number not in self._verified:
            if hashlib.sha256(shard.data).hexdigest() != file.name:
                return None  # it is fetched again, and replaced
            self._verified.add(number)
        with suppress(OSError):  # removed at this moment: the map stays
            os.utime(file)
        return shard

    def _file(self, number: int) -> Path:
        return self._folder / self._digests[number].tobytes().hex()

    def _range(self, number: int) -> ByteRange:
        table = self._table
        start = table.offset + number * table.shard_bytes
        end = min(table.n_bytes, start + table.shard_bytes)
        return ByteRange(start, end, self._digests[number].tobytes().hex())

    def _make_room(self, n_bytes: int) -> None:
        """Remove the files used longest ago, until so many bytes more are within the bound."""
        with os.scandir(self._folder) as entries:
            files = [(entry.stat(), entry.path) for entry in entries if entry.name != _LOCK]
        total = sum(status.st_size for status, _ in files)
        allowed = min(self._bound, total + free_bytes(self._folder) - _LEFT_FREE)
        for status, path in sorted(files, key=lambda file: file[0].st_mtime_ns):
            if total + n_bytes <= allowed:
                return
            remove_file(Path(path))
            total -= status.st_size


def _find_bound() -> int:
    """The bytes that all files of the cache may have, by the variable or by default."""
    text = os.environ.get(_BOUND) or str(_DEFAULT_BOUND)
    if not text.isdecimal():
        raise ConfigError(
            f"{_BOUND}={text}: expected a number of bytes, such as {_DEFAULT_BOUND} (64 GiB)"
        )
    return int(text)


def _find_folder(url: str) -> Path:
    folder = cache_folder("shards")
    if folder is None:
        raise TextError(
            f"{url}: shards at a URL need a cache, and PELLUCID_CACHE is off: set it to a folder "
            "on a disk of this machine"
        )
    try:
        private = private_folder(folder)
    except OSError as error:
        raise TextError(
            f"{url}: the cache of shards cannot be made in {folder} ({error.strerror}): set "
            "PELLUCID_CACHE to a folder on a disk of this machine"
        ) from None
    if private is None:
        raise TextError(
            f"{url}: other users can write to the cache of shards in {folder}, or to a folder "
            "above it: remove that right (chmod go-w), or set PELLUCID_CACHE to another folder"
        )
    return private
