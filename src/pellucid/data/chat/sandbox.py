"""Templates rendered in a process of their own, which is killed where it takes too long.

A template is somebody else's program. It runs in jinja2's immutable sandbox, in another process
that may use so much memory and so much time. Where the system cannot limit the memory of a process
(Windows; macOS in part), the time is limited alone.
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

#: A first line has to wait for Python and jinja2 to be loaded as well.
_START_SECONDS = 60
#: Seconds are counted while it computes; by the clock, on a busy machine, it may take longer.
_PATIENCE = 6
#: What a process ends with that has computed for too long, where there is such a limit.
_OUT_OF_TIME = -int(getattr(signal, "SIGXCPU", 99))

#: Places in a text, [from, to).
Spans = list[Sequence[int]]


class Rendered(NamedTuple):
    """A text; what of it a `{% generation %}` tag marked; what of it the messages said, or None
    where the template changed them so that this cannot be told.
    """

    text: str
    generated: Spans | None
    contents: Spans | None


class Sandbox:
    """A process that renders one template, begun when it is first needed.

    Args:
        source: the template.
        called: what errors call it.
        seconds: how long one row may compute.
        megabytes: how much memory the process may have.
    """

    def __init__(self, source: str, *, called: str, seconds: float, megabytes: int) -> None:
        self._source, self._called = source, called
        self._seconds, self._megabytes = seconds, megabytes
        self._process: children.Child | None = None
        self._answers: Queue[bytes] = Queue()
        self._has_tags: bool | None = None

    @property
    def has_tags(self) -> bool:
        """Whether the template says by tags what the assistant writes."""
        if self._has_tags is None:
            self._started()
        return bool(self._has_tags)

    def render(
        self, where: str, contexts: list[dict[str, Any]], special: list[str]
    ) -> list[Rendered]:
        """The texts of several contexts of one row.

        Raises:
            TextError: the template failed, took too long or too much memory; names the row by
                `where`, and the template's line.
        """
        process = self._started()
        answer = self._ask(process, where, {"contexts": contexts, "special": special})
        texts: list[dict[str, Any]] = answer["texts"]
        return [
            Rendered(rendered["text"], rendered["generated"], rendered["contents"])
            for rendered in texts
        ]

    def close(self) -> None:
        """End the process; it is begun again where it is needed again."""
        if self._process is not None:
            _end(self._process)
        self._process = None

    def _started(self) -> children.Child:
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
        self, process: children.Child, where: str, request: dict[str, Any], extra_seconds: float = 0
    ) -> dict[str, Any]:
        at = f"{where}: " if where else ""
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
            raise self._stopped(at, late=line is None or process.returncode == _OUT_OF_TIME)
        answer = parse_json_table(line.decode(), self._called, refusal=TextError)
        if "error" in answer:
            place = "" if answer["line"] is None else f", line {answer['line']}"
            raise TextError(
                f"{at}{self._called}{place}: {answer['error']}; mend the template or the row"
            )
        return answer

    def _stopped(self, at: str, *, late: bool) -> TextError:
        if late:
            return TextError(
                f"{at}{self._called} did not come to an end within {self._seconds:g} seconds and "
                "was stopped: look for a loop or a huge number in it"
            )
        return TextError(
            f"{at}{self._called} ended without an answer, perhaps for want of memory (it may have "
            f"{self._megabytes} MiB): look for a huge text or number in it"
        )


def _read(stream: BinaryIO, answers: Queue[bytes]) -> None:
    """In a thread, because not every system can wait for a pipe and a clock at once."""
    with stream:
        while line := stream.readline():
            answers.put(line)
    answers.put(b"")


def _end(process: children.Child) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):  # what was left to be written to a process that is gone
            process.stdin.close()


def _library() -> str:
    """Where jinja2 lies, for a process that looks at nothing of the user's own."""
    spec = find_spec("jinja2")
    if spec is None or spec.origin is None:
        raise TextError("chat templates are rendered by jinja2, which is missing: reinstall")
    return str(Path(spec.origin).parents[1])
