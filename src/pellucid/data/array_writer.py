"""Arrays that grow on disk part by part, and a journal by which a later process goes on with them.

Comes in: token ids, stretch by stretch. Goes out: `.npy` files and counts. It does not know texts.

The files are those that numpy would have written; while they grow, their headers say that they are
empty. The journal has a line for each part that is finished, with its checksums. After a crash the
parts that are as the journal says are kept, and what comes after them is cut off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pellucid.data.encode import Counts, Encoded
from pellucid.disk import remove_file
from pellucid.errors import PellucidError
from pellucid.json_text import json_text
from pellucid.reader import LARGE, parse_json, read_text

#: Bytes of text of a part: what is lost at most.
PART = 2**24

#: The journal's name.
JOURNAL = "parts.jsonl"
#: What numpy reserves for the header of an array of one dimension, whatever its length.
_HEADER = 128

Id = type[np.uint16] | type[np.uint32]


class Journal:
    """The finished parts in a folder, which is begun anew unless it was made for the same `key`.

    Arrays that are there are cut to what the journal knows of them.
    """

    def __init__(self, folder: Path, key: str, dtype: Id) -> None:
        self._file = folder / JOURNAL
        self._dtype = dtype
        self.folder = folder
        self._parts = self._read_parts(key)
        lines = [{"key": key}, *self._parts]
        self._file.write_text("".join(json_text(line) + "\n" for line in lines), "utf-8")

    def counts(self, name: str) -> Counts:
        """What is finished of a side."""
        mine = [part["counts"] for part in self._parts if part["side"] == name]
        return Counts(**mine[-1]) if mine else Counts()

    def write(
        self, name: str, read: Callable[[int], Iterator[Encoded]], unknown_id: int | None
    ) -> Counts:
        """Write the rest of a side, which `read` gives from a number of stretches on."""
        counts = self.counts(name)
        tokens = self._opened(f"{name}.npy", self._dtype, counts.n_tokens)
        starts = self._opened(f"{name}.starts.npy", np.int64, counts.documents)
        with tokens, starts, self._file.open("a", encoding="utf-8") as journal:
            sums, size = [hashlib.sha256(), hashlib.sha256()], 0
            for encoding in read(counts.stretches):
                if encoding.first:
                    _append(starts, np.array([counts.n_tokens], dtype=np.int64), sums[1])
                _append(tokens, encoding.ids, sums[0])
                counts.add(encoding, unknown_id)
                size += encoding.n_bytes
                if size >= PART:
                    tokens.flush()
                    starts.flush()
                    hashes = [digest.hexdigest() for digest in sums]
                    part = {"side": name, "counts": asdict(counts), "sha256": hashes}
                    journal.write(json_text(part) + "\n")
                    journal.flush()
                    sums, size = [hashlib.sha256(), hashlib.sha256()], 0
            _write_header(tokens, self._dtype, counts.n_tokens)
            _write_header(starts, np.int64, counts.documents)
        return counts

    def close(self) -> None:
        """Everything is written: the journal has done its work."""
        remove_file(self._file)

    def _read_parts(self, key: str) -> list[dict[str, Any]]:
        """The parts of an earlier process that are still what they were."""
        try:
            lines = read_text(self._file, limit=LARGE).split("\n")
            if parse_json(lines[0], JOURNAL) != {"key": key}:
                return []
            return list(self._whole(lines[1:]))
        except PellucidError:
            return []

    def _whole(self, lines: list[str]) -> Iterator[dict[str, Any]]:
        previous: dict[str, Counts] = {}
        for line in lines:
            try:
                part = parse_json(line, JOURNAL)
                start, end = previous.get(part["side"], Counts()), Counts(**part["counts"])
                width, name = np.dtype(self._dtype).itemsize, part["side"]
                sums = [
                    _sum(self.folder / f"{name}.npy", width, start.n_tokens, end.n_tokens),
                    _sum(self.folder / f"{name}.starts.npy", 8, start.documents, end.documents),
                ]
            except (
                OSError,
                ValueError,
                TypeError,
                KeyError,
                PellucidError,
            ):  # a line that was cut off
                return
            if sums != part["sha256"]:
                return
            previous[name] = end
            yield part

    def _opened(self, name: str, dtype: type[Any], n: int) -> BinaryIO:
        path = self.folder / name
        path.touch()
        file = path.open("r+b")
        _write_header(file, dtype, 0)
        file.truncate(_HEADER + n * np.dtype(dtype).itemsize)
        file.seek(0, 2)
        return file


def _append(file: BinaryIO, values: Any, digest: Any) -> None:
    content = values.tobytes()
    digest.update(content)
    file.write(content)


def _write_header(file: BinaryIO, dtype: type[Any], n: int) -> None:
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    file.seek(0)
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": (n,)}
    )
    if file.tell() != _HEADER:
        raise RuntimeError(f"numpy wrote a header of {file.tell()} bytes, not {_HEADER}")


def _sum(file: Path, width: int, start: int, end: int) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        stream.seek(_HEADER + start * width)
        remaining = (end - start) * width
        while remaining:
            content = stream.read(min(remaining, 2**20))
            if not content:
                break
            digest.update(content)
            remaining -= len(content)
    return digest.hexdigest()
