"""The core behind every face of the page: a question in, plain values out; no socket.

Comes in: an `Ask`. Goes out: what JSON can hold. It does not know who asks: a browser, a notebook,
a file that is being written.

Sentences that were read are kept, the last few; they hold the residual stream and no more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from pellucid.errors import PellucidError
from pellucid.json_text import json_text
from pellucid.version import __version__
from pellucid.web.cancellation import stoppable
from pellucid.web.json_payload import LARGEST_RESPONSE, Plain, chapter_of
from pellucid.web.page_state import backward, overview, prediction, thumbnails_of
from pellucid.web.requests import Ask, AskError, Reading, Scale
from pellucid.web.run_registry import Shelf
from pellucid.web.trace_protocol import Attention, Opener, SentenceTrace

#: How many sentences are kept, each with its layers' states.
KEPT = 8


class Session:
    """Runs and sentences that were read; safe to ask from several threads."""

    def __init__(
        self, shelf: Shelf, opener: Opener, *, sentence: str = "", kept: int = KEPT
    ) -> None:
        self.shelf = shelf
        self._open, self._kept, self.sentence = opener, kept, sentence
        self._read: OrderedDict[Any, SentenceTrace] = OrderedDict()
        self._lock = threading.Lock()
        self._progress: dict[tuple[Reading, tuple[Scale, ...]], tuple[int, int]] = {}
        # one at a time: hooks on a model hear whoever runs it
        self._working = threading.Lock()

    def get(self, ask: Ask) -> Plain:
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
            self._look_for(sentence, ask)
            if ask.kind == "thumbnails":
                place = ask.place
                attention = Attention(place.stack, place.cross)
                return {"thumbnails": thumbnails_of(sentence, attention, place.layer)}
            return self._chapter(sentence, ask)

    def answer(self, ask: Ask) -> bytes:
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

    def _base(self, ask: Ask) -> SentenceTrace | None:
        """What a prediction is compared with: another reading, or the same with no head scaled."""
        if ask.versus is not None:
            return self._load_reading(ask.versus, (), None)
        return self._load_reading(ask.read, (), None) if ask.scales else None

    def keep(self, reading: Reading, told: SentenceTrace) -> None:
        """Answer for a sentence with what was read of it already."""
        run = self.shelf.load(reading.run, reading.checkpoint)
        with self._lock:
            self._read[reading, str(run.checkpoint), (), None] = told

    def _backward(self, sentence: SentenceTrace, ask: Ask) -> Plain:
        """Back through all layers; how far it is can be asked meanwhile."""
        key = (ask.read, ask.scales)

        def watch(done: int, total: int) -> None:
            self._progress[key] = (done, total)

        try:
            sentence.go_back(watch)
            return backward(sentence)
        finally:
            self._progress.pop(key, None)

    def _chapter(self, sentence: SentenceTrace, ask: Ask) -> Plain:
        names = [heading.id for heading in sentence.contents()]
        if ask.chapter not in names:
            raise AskError(f"this model has no chapter {ask.chapter!r}: it has {', '.join(names)}")
        return chapter_of(sentence.chapter(ask.chapter, ask.place))

    def _load_ask(self, ask: Ask) -> SentenceTrace:
        versus = None if ask.versus is None else self._load_reading(ask.versus, (), None)
        return self._load_reading(ask.read, ask.scales, versus)

    def _load_reading(
        self, reading: Reading, scales: tuple[Scale, ...], versus: SentenceTrace | None
    ) -> SentenceTrace:
        if not reading.sentence.strip():
            raise AskError("the sentence is empty: write a few words to see them read")
        run = self.shelf.load(reading.run, reading.checkpoint)
        key = (reading, str(run.checkpoint), scales, id(versus) if versus else None)
        with self._lock:
            if key in self._read:
                self._read.move_to_end(key)
                return self._read[key]
        sentence = self._open(run, reading.sentence, scales, versus)
        with self._lock:
            self._read[key] = sentence
            while len(self._read) > self._kept:
                self._read.popitem(last=False)
        return sentence

    @staticmethod
    def _look_for(sentence: SentenceTrace, ask: Ask) -> None:
        """Refuse a place that is not there, in words.

        Raises:
            PellucidError: the sentence has no such token, or the model no such layer or head.
        """
        place = ask.place
        encodes = place.stack == "encoder" and len(sentence.spare) > 0
        n = len(sentence.spare if encodes else sentence.ids)
        heads = sentence.heads.get(Attention(place.stack, place.cross), ())
        if not 0 <= place.layer < len(heads):
            raise PellucidError(
                f"there is no layer {place.layer} in the {place.stack}: it has {len(heads)}, "
                "counted from 0"
            )
        if not 0 <= place.head < max(1, heads[place.layer]):
            raise PellucidError(
                f"there is no head {place.head} in layer {place.layer}: it has "
                f"{heads[place.layer]}, counted from 0"
            )
        if not -n <= place.token < n:
            raise PellucidError(
                f"there is no token {place.token}: the sentence has {n}, counted from 0"
            )
