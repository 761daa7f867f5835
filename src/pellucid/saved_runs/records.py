"""Events to `metrics.jsonl` and back."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, cast

from pellucid.checkpoints import write_text
from pellucid.errors import PellucidError, RunError
from pellucid.json_text import json_text
from pellucid.reader import LARGE, decode_text, open_file, parse_json, read_bytes
from pellucid.saved_runs.folder import RunFolder
from pellucid.training import (
    CheckpointSaved,
    Event,
    Observer,
    StepFinished,
    from_record,
    to_record,
)

Record = dict[str, Any]

#: The events before a run's first update; a run that starts anew does not repeat them.
_OF_THE_START = ("Started", "Example", "Resumed", "Drifted", "Noticed", "Interrupted")


@contextmanager
def recorder(file: Path) -> Generator[Observer]:
    """An observer that appends each event as one line: whole, or not at all.

    At each checkpoint, and at the end, all lines are on disk.

    Raises:
        RunError: the disk is full or cannot be written; no torn line is left.
    """
    with file.open("ab", buffering=0) as stream:

        def record(event: Event) -> None:
            if isinstance(event, StepFinished):
                return  # its numbers are still on the device
            line = json_text(to_record(event)) + "\n"
            _append(stream, line.encode(), file)
            if isinstance(event, CheckpointSaved):
                os.fsync(stream.fileno())

        try:
            yield record
        finally:
            with suppress(OSError):  # the error being raised says more
                os.fsync(stream.fileno())


def sync(file: Path) -> None:
    """Wait until the disk has all lines, so that a checkpoint never has more updates than they."""
    if file.is_file():
        with file.open("rb+") as stream:
            os.fsync(stream.fileno())


def cut_after(file: Path, step: int) -> list[str]:
    """Drop the events that a run will record again when it continues after `step` updates.

    Returns the problems of the file as sentences, each only once in a run's life.
    """
    records, torn = _read_records(file)
    remaining = [
        record
        for record in records
        if record["step"] <= step and (step > 0 or record["event"] in _OF_THE_START)
    ]
    if torn or len(remaining) < len(records) or not _ends_read_records(file):
        write_text(file, "".join(f"{json_text(record)}\n" for record in remaining))
    noticed = {record.get("text") for record in remaining if record["event"] == "Noticed"}
    gaps = [
        f"{file.name} holds nothing of update {first}"
        if first == last
        else f"{file.name} holds nothing of the updates {first} to {last}"
        for first, last in _gaps(remaining, step)
    ]
    return [*torn, *(text for text in gaps if text not in noticed)]


def _append(stream: FileIO, line: bytes, file: Path) -> None:
    end = stream.seek(0, os.SEEK_END)
    try:
        if stream.write(line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        with suppress(OSError):
            stream.truncate(end)
        raise RunError(
            f"{file} could not be written: {error.strerror}; earlier checkpoints are complete: "
            "make room, then resume"
        ) from error


def read_events(file: Path) -> list[Event]:
    """All events so far."""
    records, _ = _read_records(file)
    return [
        _readable(file, number, from_record, record) for number, record in enumerate(records, 1)
    ]


def attach(folder: RunFolder, *, poll_seconds: float = 0.25) -> Iterator[Event]:
    """The events of a run from its start, and new ones while it trains.

    They end with the run: at its last event, or when no process holds the folder any more.

    Raises:
        RunError: the run has recorded nothing.
    """
    if not folder.metrics.is_file():
        raise RunError(f"{folder.path} has recorded nothing yet: {folder.metrics} does not exist")
    with open_file(folder.metrics, refusal=RunError) as stream:
        line, number = b"", 1
        while True:
            line += stream.readline(LARGE)
            if line.endswith(b"\n"):
                yield _event(folder.metrics, number, line)
                line, number = b"", number + 1
            elif len(line) > LARGE:
                raise RunError(
                    f"{folder.metrics} has a line of more than {LARGE:,} bytes: it is no log"
                )
            elif folder.is_held():
                time.sleep(poll_seconds)
            else:
                # it may have written its last lines just before it released the folder
                lines = (line + stream.read(LARGE)).split(b"\n")[:-1]
                for last_number, last in enumerate(lines, number):
                    yield _event(folder.metrics, last_number, last)
                return


def _read_records(file: Path) -> tuple[list[Record], list[str]]:
    """The record of each complete line, and a sentence about the end that a crash left, if any.

    A crash may cut the last line short. After a power failure the end may be zero bytes.
    """
    if not file.is_file():
        return [], []
    lines = read_bytes(file, limit=LARGE, refusal=RunError).split(b"\n")
    end = len(lines)
    while end and not lines[end - 1].strip(b"\0 \r"):
        end -= 1
    last = end - 1 if end and (end == len(lines) or b"\0" in lines[end - 1]) else None
    if last is not None and not _is_record(lines[last]):
        end = last
    torn = b"\n".join(lines[end:]).strip(b"\n\r ")
    records = [
        _readable(file, number, _record_of, line) for number, line in enumerate(lines[:end], 1)
    ]
    return records, [_describe_torn(file, torn)] if torn else []


def _describe_torn(file: Path, torn: bytes) -> str:
    zeros = torn.count(b"\0")
    if zeros == len(torn):
        return f"{file.name} ended in {zeros:,} zero bytes after a crash: they are cut off"
    in_zeros = f", {zeros:,} of them zero" if zeros else ""
    return (
        f"the last line of {file.name} was cut short by a crash: its {len(torn):,} bytes{in_zeros} "
        "are cut off"
    )


def _ends_read_records(file: Path) -> bool:
    return not file.is_file() or file.read_bytes()[-1:] in (b"", b"\n")


def _gaps(records: Sequence[Record], step: int) -> Iterator[tuple[int, int]]:
    """The first and last update of each gap up to `step` between the `Logged` events."""
    stretches = sorted(
        (record["step"] - len(record["losses"]) + 1, record["step"])
        for record in records
        if record["event"] == "Logged" and isinstance(record.get("losses"), list)
    )
    covered = 0
    for first, last in (*stretches, (step + 1, step + 1)):
        if first > covered + 1:
            yield covered + 1, first - 1
        covered = max(covered, last)


def _record_of(line: bytes) -> Record:
    try:
        record: object = parse_json(decode_text(line, "the line"), "the line")
    except PellucidError:
        raise PellucidError("it is not JSON") from None
    match record:
        case {"event": str(), "step": int()}:
            return cast("Record", record)
        case _:
            raise PellucidError("it has no event and no step")


def _is_record(line: bytes) -> bool:
    try:
        _record_of(line)
    except PellucidError:
        return False
    return True


def _event(file: Path, number: int, line: bytes) -> Event:
    return _readable(file, number, lambda raw: from_record(_record_of(raw)), line)


def _readable(file: Path, number: int, read: Callable[[Any], Any], raw: Any) -> Any:
    try:
        return read(raw)
    except (ValueError, PellucidError) as error:
        text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
        raise RunError(
            f"{file}, line {number} ({text.strip()[:40]!r}) is not a record: {error}; delete this "
            "line, or copy the file again"
        ) from None
