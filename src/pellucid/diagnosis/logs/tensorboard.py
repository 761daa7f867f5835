"""TensorBoard's event files, read without TensorBoard.

A file is a sequence of records: the length in 8 bytes, 4 bytes of checksum, the record, 4 bytes of
checksum. A record is a protocol buffer. pellucid reads its step (2) and its summary (5) with
values (1): their tag (1) and their number, simple (2) or as a tensor (8).
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from pathlib import Path

from pellucid.errors import PellucidError
from pellucid.reader import LARGE, read_bytes

Scalars = dict[str, list[tuple[int, float]]]

_FLOAT, _DOUBLE = 1, 2


def is_event_file(path: Path) -> bool:
    """Whether the file has a name like TensorBoard's files."""
    return path.is_file() and "tfevents" in path.name


def folders_within(folder: Path) -> list[Path]:
    """Folders that hold event files, the newest last."""
    newest: dict[Path, float] = {}
    for path in folder.rglob("*tfevents*"):
        if path.is_file():
            newest[path.parent] = max(newest.get(path.parent, 0.0), path.stat().st_mtime)
    return sorted(newest, key=lambda parent: (newest[parent], str(parent)))


def scalars_of(path: Path) -> Scalars:
    """The scalars of a file, or of all files of a folder in the order of their names.

    Raises:
        PellucidError: a file is damaged, empty or not an event file.
    """
    files = sorted(path.glob("*tfevents*")) if path.is_dir() else [path]
    scalars: Scalars = {}
    for file in files:
        for record in _records(file):
            try:
                step, summaries = _read_event(record)
                for tag, value in (pair for summary in summaries for pair in _values(summary)):
                    scalars.setdefault(tag, []).append((step, value))
            except (IndexError, struct.error, UnicodeDecodeError):
                raise _damaged(file) from None
    return scalars


def _records(file: Path) -> Generator[bytes]:
    """The records; while a tool still writes, the last may be cut off."""
    data = read_bytes(file, limit=LARGE)
    if not data:
        raise PellucidError(f"{file} is empty: no tool has written an event to it yet")
    offset = 0
    while offset + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, offset)
        if offset == 0 and length > len(data):
            raise _damaged(file)
        end = offset + 12 + length
        if end > len(data):
            return
        yield data[offset + 12 : end]
        offset = end + 4


def _damaged(file: Path) -> PellucidError:
    return PellucidError(
        f"{file} has the name of a TensorBoard event file, but is damaged or has other content: "
        "expected the output of SummaryWriter (events.out.tfevents...)"
    )


def _fields(data: bytes) -> Generator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer: whole numbers, or bytes."""
    offset = 0
    while offset < len(data):
        key, offset = _varint(data, offset)
        match key & 7:
            case 0:
                value, offset = _varint(data, offset)
                yield key >> 3, value
                continue
            case 1:
                length = 8
            case 5:
                length = 4
            case 2:
                length, offset = _varint(data, offset)
            case _:
                raise IndexError
        if offset + length > len(data):
            raise IndexError
        yield key >> 3, data[offset : offset + length]
        offset += length


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return value, offset


def _read_event(record: bytes) -> tuple[int, list[bytes]]:
    step, summaries = 0, list[bytes]()
    for field, value in _fields(record):
        if field == 2 and isinstance(value, int):
            step = value
        elif field == 5 and isinstance(value, bytes):
            summaries.append(value)
    return step, summaries


def _values(summary: bytes) -> Generator[tuple[str, float]]:
    for field, value in _fields(summary):
        if field != 1 or not isinstance(value, bytes):
            continue
        tag, number = "", None
        for inner, payload in _fields(value):
            if not isinstance(payload, bytes):
                continue
            if inner == 1:
                tag = payload.decode("utf-8")
            elif inner == 2 and len(payload) == 4:
                number = float(struct.unpack("<f", payload)[0])
            elif inner == 8:
                number = _read_tensor(payload)
        if number is not None:
            yield tag, number


def _read_tensor(tensor: bytes) -> float | None:
    """The number in a tensor of one float or double; None for any other tensor."""
    kind, raw = 0, b""
    for field, value in _fields(tensor):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field in (4, 5, 6) and isinstance(value, bytes):
            raw = value
    if kind == _FLOAT and len(raw) == 4:
        return float(struct.unpack("<f", raw)[0])
    if kind == _DOUBLE and len(raw) == 8:
        return float(struct.unpack("<d", raw)[0])
    return None
