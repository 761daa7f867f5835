"""A session of the page: it answers requests with plain values, without any network.

It keeps the last few sentences, each only with its residual stream.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain import Trace
from pellucid.json_text import json_text
from pellucid.runs import Run, load
from pellucid.version import __version__
from pellucid.web import book
from pellucid.web.cancellation import stoppable
from pellucid.web.course import Course
from pellucid.web.json_payload import LARGEST_RESPONSE, Plain, chapter_payload, with_messages
from pellucid.web.machine import machine
from pellucid.web.page_state import (
    backward,
    head_thumbnails,
    overview,
    prediction,
    token_attention,
)
from pellucid.web.requests import COURSE_KINDS, PageRequest, Reading, RequestError, Scale
from pellucid.web.run_list import run_curves, run_table
from pellucid.web.run_registry import RunRegistry
from pellucid.web.sentence_view import Attention, SentenceView, open_view


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """How the page talks to a run: its name in the API, and whether it has a chat template.

    Attributes:
        model: its name in the API.
        is_chat: whether the run has a chat template.
    """

    model: str
    is_chat: bool


#: Most sentences that are kept, each with its layers' states.
MAX_SENTENCES = 8


class Session:
    """Runs and traced sentences; several threads may use it."""

    def __init__(
        self, shelf: RunRegistry, *, sentence: str = "", max_sentences: int = MAX_SENTENCES
    ) -> None:
        self.shelf = shelf
        self._max_sentences, self.sentence = max_sentences, sentence
        #: By the runs' keys; empty if the server has no API.
        self.talks: Mapping[str, Talk] = {}
        #: Lessons and concepts; None if the page has none, as in a file or a notebook.
        self.course: Course | None = None
        #: The tokens that a page shows first, in place of the sentence, and the chosen one of them.
        self.first_ids: Sequence[int] = ()
        self.first_token = -1
        self._read: OrderedDict[Any, SentenceView] = OrderedDict()
        self._lock = threading.Lock()
        self._progress: dict[tuple[Reading, tuple[Scale, ...]], tuple[int, int]] = {}
        # one at a time, because hooks on a model see every pass
        self._working = threading.Lock()

    def get(self, ask: PageRequest) -> Plain:
        """The answer.

        Raises:
            PellucidError: There is none; the page shows the message.
        """
        if ask.kind == "runs":
            return {
                "version": __version__,
                "sentence": self.sentence,
                "runs": self.shelf.describe(),
                "ids": list(self.first_ids),
                "token": self.first_token,
                "talks": {key: asdict(talk) for key, talk in self.talks.items()},
                "course": self.course is not None,
            }
        if ask.kind == "table":
            return run_table(self.shelf)
        if ask.kind == "curves":
            return run_curves(self.shelf, ask.names)
        if ask.kind == "progress":
            n_done, total = self._progress.get((ask.read, ask.scales), (0, 0))
            return {"done": n_done, "of": total}
        if ask.kind in COURSE_KINDS:
            return self._learn(ask)
        run = self.shelf.load(ask.read.run, ask.read.checkpoint)
        with self._working, stoppable(run.model):
            sentence = self._load_ask(ask)
            if ask.kind == "overview":
                return overview(sentence) | {"about": self.shelf.summarise(run)}
            if ask.kind == "prediction":
                return prediction(sentence, ask.place.token, self._base(ask))
            if ask.kind == "backward":
                return self._backward(sentence, ask)
            place = ask.place
            if ask.kind == "machine":
                selection = sentence.inspect(place).selection
                return machine(sentence, selection.side, selection.token)
            if ask.kind == "looked":
                return token_attention(sentence, place.token)
            if ask.kind == "thumbnails":
                sentence.inspect(place)  # refuses a place outside the sentence
                attention = Attention(place.stack, place.cross)
                return {"thumbnails": head_thumbnails(sentence, attention, place.layer)}
            payload = chapter_payload(sentence.inspect(place, ask.chapter).chapter())
            doors = {} if self.course is None else {"doors": book.chapter_doors(ask.chapter)}
            return payload | doors

    def _learn(self, ask: PageRequest) -> Plain:
        """The answer to a question about the course or the textbook."""
        if self.course is None:
            raise RequestError(message("learn.none-here"))
        match ask.kind:
            case "lessons":
                return self.course.contents(ask.reader)
            case "concepts":
                return book.contents()
            case "find":
                return book.find_page(ask.name)
            case "lesson" | "grade":
                run = self.shelf.load(ask.read.run, ask.read.checkpoint)
                with self._working, stoppable(run.model):
                    opened = self.course.open(
                        ask.name, run, self.shelf.folder(ask.read.run), ask.read
                    )
                # outside the lock: an answer in code may take its time
                if ask.kind == "grade":
                    return self.course.grade(opened, ask.answers)
                return self.course.lesson(opened)
            case _:
                return book.page(ask.kind, ask.name)

    def answer(self, ask: PageRequest) -> bytes:
        """The answer as JSON in UTF-8.

        Raises:
            PellucidError: There is none, or it would be too large to send.
        """
        body = json_text(with_messages(self.get(ask)), ensure_ascii=False).encode()
        if len(body) > LARGEST_RESPONSE:
            size, limit = len(body) / 1e6, LARGEST_RESPONSE / 1e6
            raise PellucidError(message("large-answer", size=size, most=limit))
        return body

    def _base(self, ask: PageRequest) -> SentenceView | None:
        """The view to compare with: another reading, or the same one without scaled heads."""
        if ask.versus is not None:
            return self._load_reading(ask.versus, (), None)
        return self._load_reading(ask.read, (), None) if ask.scales else None

    def keep(self, reading: Reading, trace: Trace) -> None:
        """Answer requests for a sentence with an existing trace, such as that of an example."""
        run = self.shelf.load(reading.run, reading.checkpoint)
        with self._lock:
            self._read[reading, str(run.checkpoint), (), None] = SentenceView(trace)

    def _backward(self, sentence: SentenceView, ask: PageRequest) -> Plain:
        """Run the backward pass; meanwhile the page can ask for its progress."""
        key = (ask.read, ask.scales)

        def watch(n_done: int, total: int) -> None:
            self._progress[key] = (n_done, total)

        try:
            sentence.run_backward(watch)
            return backward(sentence)
        finally:
            self._progress.pop(key, None)

    def _load_ask(self, ask: PageRequest) -> SentenceView:
        versus = None if ask.versus is None else self._load_reading(ask.versus, (), None)
        return self._load_reading(ask.read, ask.scales, versus)

    def _load_reading(
        self, reading: Reading, scales: tuple[Scale, ...], versus: SentenceView | None
    ) -> SentenceView:
        if not reading.ids and not reading.sentence.strip():
            raise RequestError(message("no-sentence"))
        run = self.shelf.load(reading.run, reading.checkpoint)
        key = (reading, str(run.checkpoint), scales, id(versus) if versus else None)
        with self._lock:
            if key in self._read:
                self._read.move_to_end(key)
                return self._read[key]
        sentence = open_view(run, reading.ids or reading.sentence, scales, versus)
        with self._lock:
            self._read[key] = sentence
            while len(self._read) > self._max_sentences:
                self._read.popitem(last=False)
        return sentence


def open_session(
    runs: Sequence[str | Path | Run],
    *,
    sentence: str = "",
    open_run: Callable[[Path], Run] = load,
    folders: Sequence[Path] = (),
) -> Session:
    """A session over runs.

    Args:
        runs: at least one.
        sentence: the first one that a page shows.
        open_run: opens a path, such as on another device or with fewer bits.
        folders: folders whose runs the table of all runs lists, besides these.

    Raises:
        PellucidError: `runs` is empty.
    """
    return Session(RunRegistry(runs, open_run=open_run, folders=folders), sentence=sentence)
