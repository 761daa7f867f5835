"""Chat templates rendered in a process of their own, which is killed if it takes too long.

A template is a program of another author. It runs in jinja2's immutable sandbox, in another process
with limited memory and time. If the system cannot limit the memory of a process (Windows, and in
part macOS), only the time is limited.
"""

from __future__ import annotations

import signal
import weakref
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, BinaryIO, NamedTuple, cast

from pellucid import children
from pellucid.errors import TextError
from pellucid.json_text import json_text
from pellucid.reader import parse_json_table

#: The first answer also waits for Python and jinja2 to load.
_START_SECONDS = 60
#: The limit is on computing time; on a busy machine the clock may need so many times more.
_PATIENCE = 6
#: The exit status of a process that exceeds its computing time.
_OUT_OF_TIME = -int(getattr(signal, "SIGXCPU", 99))

#: Places in a text, [from, to).
Spans = list[Sequence[int]]


class Rendered(NamedTuple):
    """A rendered text.

    Attributes:
        text: the text.
        generated: the spans that the template marks with `{% generation %}`.
        contents: the spans of the messages; None if the template changes them.
    """

    text: str
    generated: Spans | None
    contents: Spans | None


class Sandbox:
    """A process that renders one template; it starts when it is first needed.

    Args:
        source: the template.
        name: the name of the template in messages.
        seconds: the limit of computing time for one row.
        megabytes: the limit of memory for the process.
    """

    def __init__(self, source: str, *, name: str, seconds: float, megabytes: int) -> None:
        self._source, self._name = source, name
        self._seconds, self._megabytes = seconds, megabytes
        self._process: children.Child | None = None
        self._answers: Queue[bytes] = Queue()
        self._has_tags: bool | None = None

    @property
    def has_tags(self) -> bool:
        """Whether the template marks the texts of the assistant with tags."""
        if self._has_tags is None:
            self._start()
        return bool(self._has_tags)

    def render(
        self, location: str, contexts: list[dict[str, Any]], special: list[str]
    ) -> list[Rendered]:
        """The texts of several contexts of one row.

        Args:
            location: the name of the row in messages.
            contexts: the variables of the template, for each text.
            special: the names of special tokens.

        Raises:
            TextError: the template failed, or took too much time or memory; the message names the
                row and the line of the template.
        """
        process = self._start()
        answer = self._ask(process, location, {"contexts": contexts, "special": special})
        texts: list[dict[str, Any]] = answer["texts"]
        return [
            Rendered(rendered["text"], rendered["generated"], rendered["contents"])
            for rendered in texts
        ]

    def close(self) -> None:
        """End the process; the next text starts a new one."""
        if self._process is not None:
            _end(self._process)
        self._process = None

    def _start(self) -> children.Child:
        if self._process is not None:
            return self._process
        renderer = Path(__file__).with_name("renderer.py")
        process = children.start(children.python_file(renderer))
        self._process, self._answers = process, Queue()
        weakref.finalize(self, _end, process)
        Thread(target=_read, args=(process.stdout, self._answers), daemon=True).start()
        first = {
            "template": self._source,
            "library": _library(),
            "seconds": self._seconds,
            "megabytes": self._megabytes,
        }
        try:
            self._has_tags = self._ask(process, "", first, extra_seconds=_START_SECONDS)["has_tags"]
        except TextError:
            self.close()
            raise
        return process

    def _ask(
        self,
        process: children.Child,
        location: str,
        request: dict[str, Any],
        extra_seconds: float = 0,
    ) -> dict[str, Any]:
        prefix = f"{location}: " if location else ""
        line: bytes | None = b""
        try:
            cast("BinaryIO", process.stdin).write(json_text(request).encode() + b"\n")
            cast("BinaryIO", process.stdin).flush()
            line = self._answers.get(timeout=_PATIENCE * self._seconds + extra_seconds)
        except Empty:
            line = None
        except OSError:  # it has ended
            pass
        if not line:
            self.close()
            raise self._stop_error(prefix, late=line is None or process.returncode == _OUT_OF_TIME)
        answer = parse_json_table(line.decode(), self._name, refusal=TextError)
        if "error" in answer:
            place = "" if answer["line"] is None else f", line {answer['line']}"
            raise TextError(
                f"{prefix}{self._name}{place}: {answer['error']}; correct the template or the row"
            )
        return answer

    def _stop_error(self, prefix: str, *, late: bool) -> TextError:
        if late:
            return TextError(
                f"{prefix}{self._name} took longer than {self._seconds:g} seconds, so pellucid "
                "stopped it: look for a loop or a huge number in it"
            )
        return TextError(
            f"{prefix}{self._name} ended without an answer, perhaps because it needs more than "
            f"{self._megabytes} MiB of memory: look for a huge text or number in it"
        )


def _read(stream: BinaryIO, answers: Queue[bytes]) -> None:
    """Read in a thread, because not every system can wait for a pipe with a timeout."""
    with stream:
        while line := stream.readline():
            answers.put(line)
    answers.put(b"")


def _end(process: children.Child) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):  # unwritten input of the ended process
            process.stdin.close()


def _library() -> str:
    """The folder of jinja2, for a process that ignores the user's own paths."""
    spec = find_spec("jinja2")
    if spec is None or spec.origin is None:
        raise TextError(
            "chat templates need the library jinja2, which is missing: reinstall pellucid"
        )
    return str(Path(spec.origin).parents[1])
