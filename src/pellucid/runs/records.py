"""Events to `metrics.jsonl` and back.

Comes in: events, or the file. Goes out: lines, or events as they come. It does not know how they
are shown.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pellucid.checkpoints import write_text
from pellucid.errors import RunError
from pellucid.reader import LARGE, parse_json, read_text
from pellucid.runs.folder import RunFolder
from pellucid.training import Event, Observer, StepFinished, from_record, to_record


@contextmanager
def recorder(file: Path) -> Generator[Observer]:
    """An observer that appends each event as one flushed line."""
    with file.open("a", encoding="utf-8") as stream:

        def record(event: Event) -> None:
            if isinstance(event, StepFinished):
                return  # its numbers are still on the device
            stream.write(json.dumps(to_record(event), allow_nan=False) + "\n")
            stream.flush()

        yield record


def cut_after(file: Path, step: int) -> None:
    """Drop what was recorded after `step`: a run that goes on from there will record it again."""
    kept = [record for record in _records(file) if record["step"] <= step]
    write_text(file, "".join(f"{json.dumps(record)}\n" for record in kept))


def read_events(file: Path) -> list[Event]:
    """All events so far."""
    return [_readable(file, from_record, record) for record in _records(file)]


def attach(folder: RunFolder, *, poll_seconds: float = 0.25) -> Iterator[Event]:
    """The events of a run from its start, and on while it is being written.

    Ends with the run: at its last event, or when no process holds the folder any more.

    Raises:
        RunError: the run has recorded nothing.
    """
    if not folder.metrics.is_file():
        raise RunError(f"{folder.path} has recorded nothing yet: {folder.metrics} does not exist")
    with folder.metrics.open(encoding="utf-8") as stream:
        line = ""
        while True:
            line += stream.readline()
            if line.endswith("\n"):
                yield _event(folder.metrics, line)
                line = ""
            elif folder.is_held():
                time.sleep(poll_seconds)
            else:
                # it may have written its last lines between our reading and our asking
                rest = (line + stream.read()).split("\n")[:-1]
                yield from (_event(folder.metrics, last) for last in rest)
                return


def _records(file: Path) -> list[dict[str, Any]]:
    """Every whole line's record; a last line that a crash cut short is left out."""
    if not file.is_file():
        return []
    lines = read_text(file, limit=LARGE, refusal=RunError).split("\n")
    return [parse_json(line, str(file), refusal=RunError) for line in lines[:-1]]


def _event(file: Path, line: str) -> Event:
    return _readable(file, from_record, parse_json(line, str(file), refusal=RunError))


def _readable(file: Path, read: Callable[[Any], Any], what: Any) -> Any:
    try:
        return read(what)
    except ValueError as error:
        raise RunError(
            f"{file} has a line that is not a record ({error}): take out the line with "
            f"{str(what).strip()[:40]!r}"
        ) from None
