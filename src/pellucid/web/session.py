"""A session of the page: it answers requests with plain values, and knows no socket.

It keeps the last few sentences, each with its residual stream and no more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pellucid.errors import PellucidError
from pellucid.json_text import json_text
from pellucid.runs import Run
from pellucid.version import __version__
from pellucid.web.cancellation import stoppable
from pellucid.web.json_payload import LARGEST_RESPONSE, Plain, chapter_payload
from pellucid.web.page_state import backward, head_thumbnails, overview, prediction
from pellucid.web.requests import PageRequest, Reading, RequestError, Scale
from pellucid.web.run_registry import RunRegistry
from pellucid.web.sentence_view import Attention, SentenceView, open_view

#: How many sentences are kept, each with its layers' states.
KEPT = 8


class Session:
    """Runs and sentences that were read; safe to ask from several threads."""

    def __init__(self, shelf: RunRegistry, *, sentence: str = "", kept: int = KEPT) -> None:
        self.shelf = shelf
        self._kept, self.sentence = kept, sentence
        self._read: OrderedDict[Any, SentenceView] = OrderedDict()
        self._lock = threading.Lock()
        self._progress: dict[tuple[Reading, tuple[Scale, ...]], tuple[int, int]] = {}
        # one at a time: hooks on a model hear whoever runs it
        self._working = threading.Lock()

    def get(self, ask: PageRequest) -> Plain:
        """The answer.

        Raises:
            PellucidError: there is none; the message is for the person before the page.
        """
        if ask.kind == "runs":
            return {"version": __version__, "sentence": self.sentence, "runs": self.shelf.listed()}
        if ask.kind == "progress":
            done, total = self._progress.get((ask.read, ask.scales), (0, 0))
            return {"done": done, "of": total}
        run = self.shelf.load(ask.read.run, ask.read.checkpoint)
        with self._working, stoppable(run.model):
            sentence = self._load_ask(ask)
            if ask.kind == "overview":
                return overview(sentence) | {"about": self.shelf.about(run)}
            if ask.kind == "prediction":
                return prediction(sentence, ask.place.token, self._base(ask))
            if ask.kind == "backward":
                return self._backward(sentence, ask)
            place = ask.place
            if ask.kind == "thumbnails":
                sentence.inspect(place)  # refuses a place that the sentence does not have
                attention = Attention(place.stack, place.cross)
                return {"thumbnails": head_thumbnails(sentence, attention, place.layer)}
            return chapter_payload(sentence.inspect(place, ask.chapter).chapter())

    def answer(self, ask: PageRequest) -> bytes:
        """The answer as JSON in UTF-8.

        Raises:
            PellucidError: there is none, or it would be too large to send.
        """
        body = json_text(self.get(ask), ensure_ascii=False).encode()
        if len(body) > LARGEST_RESPONSE:
            raise PellucidError(
                f"the answer would have {len(body) / 1e6:.1f} MB, and at most "
                f"{LARGEST_RESPONSE / 1e6:.0f} MB are sent: choose a shorter sentence"
            )
        return body

    def _base(self, ask: PageRequest) -> SentenceView | None:
        """What a prediction is compared with: another reading, or the same with no head scaled."""
        if ask.versus is not None:
            return self._load_reading(ask.versus, (), None)
        return self._load_reading(ask.read, (), None) if ask.scales else None

    def keep(self, reading: Reading, sentence: SentenceView) -> None:
        """Answer for a sentence with what was read of it already."""
        run = self.shelf.load(reading.run, reading.checkpoint)
        with self._lock:
            self._read[reading, str(run.checkpoint), (), None] = sentence

    def _backward(self, sentence: SentenceView, ask: PageRequest) -> Plain:
        """Back through all layers; how far it is can be asked meanwhile."""
        key = (ask.read, ask.scales)

        def watch(done: int, total: int) -> None:
            self._progress[key] = (done, total)

        try:
            sentence.go_back(watch)
            return backward(sentence)
        finally:
            self._progress.pop(key, None)

    def _load_ask(self, ask: PageRequest) -> SentenceView:
        versus = None if ask.versus is None else self._load_reading(ask.versus, (), None)
        return self._load_reading(ask.read, ask.scales, versus)

    def _load_reading(
        self, reading: Reading, scales: tuple[Scale, ...], versus: SentenceView | None
    ) -> SentenceView:
        if not reading.sentence.strip():
            raise RequestError("the sentence is empty: write a few words to see them read")
        run = self.shelf.load(reading.run, reading.checkpoint)
        key = (reading, str(run.checkpoint), scales, id(versus) if versus else None)
        with self._lock:
            if key in self._read:
                self._read.move_to_end(key)
                return self._read[key]
        sentence = open_view(run, reading.sentence, scales, versus)
        with self._lock:
            self._read[key] = sentence
            while len(self._read) > self._kept:
                self._read.popitem(last=False)
        return sentence


def open_session(runs: Sequence[str | Path | Run], *, sentence: str = "") -> Session:
    """A session over runs; `sentence` is what a page begins with.

    Raises:
        PellucidError: no run was given.
    """
    return Session(RunRegistry(runs), sentence=sentence)
