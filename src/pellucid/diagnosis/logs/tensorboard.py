"""TensorBoard's event files, read without TensorBoard.

A file is a row of records: the length in 8 bytes, 4 bytes of checksum, the record, 4 bytes of
checksum. A record is a protocol buffer, of which three fields are read: step (2), summary (5), and
in it values (1) with tag (1) and the number, simple (2) or as a tensor (8).
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
    """Whether it is named as TensorBoard's files are."""
    return path.is_file() and "tfevents" in path.name


def folders_within(folder: Path) -> list[Path]:
    """Folders that hold event files, the newest last."""
    files = [path for path in folder.rglob("*tfevents*") if path.is_file()]
    newest = {path.parent: 0.0 for path in files}
    for path in files:
        newest[path.parent] = max(newest[path.parent], path.stat().st_mtime)
    return sorted(newest, key=lambda parent: (newest[parent], str(parent)))


def scalars_of(place: Path) -> Scalars:
    """The scalars of a file, or of all files of a folder in the order of their names.

    Raises:
        PellucidError: it holds something else.
    """
    files = sorted(place.glob("*tfevents*")) if place.is_dir() else [place]
    scalars: Scalars = {}
    for file in files:
        for record in _records(file):
            try:
                step, summaries = _event(record)
                for tag, value in (pair for summary in summaries for pair in _values(summary)):
                    scalars.setdefault(tag, []).append((step, value))
            except (IndexError, struct.error, UnicodeDecodeError):
                raise _damaged(file) from None
    return scalars


def _records(file: Path) -> Generator[bytes]:
    """The records; the last may be cut off, as it is while somebody writes."""
    data = read_bytes(file, limit=LARGE)
    if not data:
        raise PellucidError(f"{file} is empty: no event was written to it yet")
    place = 0
    while place + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        if place == 0 and length > len(data):
            raise _damaged(file)
        end = place + 12 + length
        if end > len(data):
            return
        yield data[place + 12 : end]
        place = end + 4


def _damaged(file: Path) -> PellucidError:
    return PellucidError(
        f"{file} is named like an event file of TensorBoard and is none, or is damaged: expected "
        "what SummaryWriter writes (events.out.tfevents...)"
    )


def _fields(data: bytes) -> Generator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer: whole numbers, or bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        match key & 7:
            case 0:
                value, place = _varint(data, place)
                yield key >> 3, value
                continue
            case 1:
                length = 8
            case 5:
                length = 4
            case 2:
                length, place = _varint(data, place)
            case _:
                raise IndexError
        if place + length > len(data):
            raise IndexError
        yield key >> 3, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def _event(record: bytes) -> tuple[int, list[bytes]]:
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
                number = _of_tensor(payload)
        if number is not None:
            yield tag, number


def _of_tensor(tensor: bytes) -> float | None:
    """The number in a tensor that holds one: float or double, in bytes or as numbers."""
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
