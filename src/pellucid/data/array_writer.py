"""Arrays that grow on disk part by part, and a journal from which a later process continues.

The files are as numpy writes them; while they grow, their headers say that they are empty. The
journal has a line with checksums for each finished part. After a crash, the parts that match their
checksums stay, and everything after them is cut off.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pellucid.disk import Partial, remove_file
from pellucid.errors import PellucidError
from pellucid.json_text import json_text
from pellucid.reader import LARGE, parse_json, read_text

#: Bytes of arrays in a part: the most work that a crash can cost.
PART = 2**22

#: The journal's name.
JOURNAL = "parts.jsonl"
#: What numpy reserves for the header of an array of one dimension, whatever its length.
_HEADER = 128

#: New numbers for each array, by the array's name.
Values = Mapping[str, npt.NDArray[Any]]


class Journal:
    """The finished parts of the arrays in a folder; begun anew unless it has the same `key`.

    Arrays that exist are cut to the length that the journal states.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._file = folder / JOURNAL
        self.folder = folder
        self._parts = self._read_parts(key)
        lines = [{"key": key}, *self._parts]
        self._file.write_text("".join(json_text(line) + "\n" for line in lines), "utf-8")

    def counts(self, side: str) -> dict[str, Any]:
        """The counts of a side at the end of its last finished part."""
        parts = [part["counts"] for part in self._parts if part["side"] == side]
        return parts[-1] if parts else {}

    def write(
        self,
        side: str,
        arrays: Mapping[str, type[np.generic]],
        values: Iterable[Values],
        counts: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Append values to the arrays of a side, behind its finished parts.

        Args:
            side: the name of the counts.
            arrays: the type of each array, by name; "train" is the file `train.npy`.
            values: the new numbers, from where `counts(side)` ends.
            counts: called at the end of each part; a later process reads it by `counts(side)`.
        """
        lengths = {name: self._length(name) for name in arrays}
        with ExitStack() as stack:
            files = {
                name: stack.enter_context(_open_array(self.folder, name, dtype, lengths[name]))
                for name, dtype in arrays.items()
            }
            journal = stack.enter_context(self._file.open("a", encoding="utf-8"))
            digests, size = {name: hashlib.sha256() for name in arrays}, 0
            for addition in values:
                for name, numbers in addition.items():
                    content = numbers.astype(arrays[name], copy=False).tobytes()
                    digests[name].update(content)
                    files[name].write(content)
                    lengths[name] += len(numbers)
                    size += len(content)
                if size < PART:
                    continue
                for file in files.values():
                    file.flush()
                ends = {
                    name: [np.dtype(dtype).str, lengths[name], digests[name].hexdigest()]
                    for name, dtype in arrays.items()
                }
                line = {"side": side, "counts": dict(counts()), "arrays": ends}
                journal.write(json_text(line) + "\n")
                journal.flush()
                digests, size = {name: hashlib.sha256() for name in arrays}, 0
            for name, dtype in arrays.items():
                _write_header(files[name], dtype, lengths[name])

    def close(self) -> None:
        """Remove the journal: everything is written."""
        remove_file(self._file)

    def _length(self, name: str) -> int:
        lengths = [part["arrays"][name][1] for part in self._parts if name in part["arrays"]]
        return lengths[-1] if lengths else 0

    def _read_parts(self, key: str) -> list[dict[str, Any]]:
        """The parts of an earlier process whose checksums still match."""
        try:
            lines = read_text(self._file, limit=LARGE).split("\n")
            if parse_json(lines[0], JOURNAL) != {"key": key}:
                return []
            return list(self._read_valid(lines[1:]))
        except PellucidError:
            return []

    def _read_valid(self, lines: list[str]) -> Iterator[dict[str, Any]]:
        ends: dict[str, int] = {}
        for line in lines:
            try:
                part = parse_json(line, JOURNAL)
                for name, (dtype, end, digest) in part["arrays"].items():
                    file, width = self.folder / f"{name}.npy", np.dtype(dtype).itemsize
                    if _hash_part(file, width, ends.get(name, 0), end) != digest:
                        return
                    ends[name] = end
                complete = {**part, "counts": dict(part["counts"]), "side": str(part["side"])}
            # a line that was cut off
            except (OSError, ValueError, TypeError, KeyError, AttributeError, PellucidError):
                return
            yield complete


@contextmanager
def journaled_folder(
    folder: Path, files: Sequence[str], *, key: str | None, keep: Sequence[str] = ()
) -> Generator[Journal]:
    """An unfinished folder with a journal, which becomes `folder` at the end.

    If this process is killed or fails, the next one with the same key continues its work.

    Args:
        folder: the folder to write.
        files: all files that it may have, as patterns.
        key: a hash of everything that the arrays depend on; None starts again each time.
        keep: the files that another process continues.
    """
    partial = Partial(folder, files, keep=() if key is None else keep)
    try:
        journal = Journal(partial.path, key or "")
        yield journal
        journal.close()
        partial.place()
    except BaseException:
        (partial.remove if key is None else partial.release)()
        raise


def _open_array(folder: Path, name: str, dtype: type[np.generic], n: int) -> BinaryIO:
    path = folder / f"{name}.npy"
    path.touch()
    file = path.open("r+b")
    _write_header(file, dtype, 0)
    file.truncate(_HEADER + n * np.dtype(dtype).itemsize)
    file.seek(0, 2)
    return file


def _write_header(file: BinaryIO, dtype: type[np.generic], n: int) -> None:
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    file.seek(0)
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": (n,)}
    )
    if file.tell() != _HEADER:
        raise RuntimeError(f"numpy wrote a header of {file.tell()} bytes, not {_HEADER}")


def _hash_part(file: Path, width: int, start: int, end: int) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        stream.seek(_HEADER + start * width)
        remaining = (end - start) * width
        while remaining > 0:
            content = stream.read(min(remaining, 2**20))
            if not content:
                break
            digest.update(content)
            remaining -= len(content)
    return digest.hexdigest()
