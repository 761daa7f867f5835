"""Requests of a page: frozen values, made from unchecked JSON.

A request has no path of a file: it names a run by its key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, cast

from pellucid.catalogue import message
from pellucid.course.exercises.types import READERS
from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Place
from pellucid.explain.forward_pass import HeadScale

#: The kinds of requests about the course and the textbook, and all kinds.
COURSE_KINDS = (
    *("lessons", "lesson", "grade"),
    *("concepts", "concept", "equation", "experiment", "find"),
)
KINDS = (
    *("runs", "overview", "thumbnails", "prediction", "chapter", "backward", "progress"),
    *("looked", "machine", "table", "curves"),
    *COURSE_KINDS,
)
#: Most characters of a sentence; a longer one is refused before it is encoded.
LONGEST_SENTENCE = 20_000
#: The largest factor for a head's output.
LARGEST_SCALE = 4.0
_MOST_SCALES = 64
#: The most curves of runs in one picture.
MOST_CURVES = 4
_LONGEST_NAME = 300
#: Most answers to exercises in a request, and most characters of one.
_MOST_ANSWERS, _LONGEST_ANSWER = 64, 60_000
_LAST = Place()


class RequestError(PellucidError):
    """A request cannot be answered; the page shows the message."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A sentence, or the tokens of a chat, and the run and checkpoint that read it.

    Attributes:
        run: the key of the run on the page.
        checkpoint: its name; empty for the last.
        sentence: the text.
        ids: token ids instead of a text.
    """

    run: str
    checkpoint: str
    sentence: str
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The factor of one head's output: 0 removes it, "mean" replaces it by its mean."""

    stack: str
    layer: int
    head: int
    factor: HeadScale
    cross: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """One request of the page.

    Attributes:
        kind: what is asked.
        reading: the sentence and its reader.
        versus: the other one in a comparison.
        scales: heads that are scaled.
        chapter: the name of the chapter.
        place: layer, head, token and weight.
        names: of several things, such as addresses.
        name: of one thing, such as a lesson.
        reader: for whom a lesson is.
        answers: to exercises, by their id.
    """

    kind: str
    reading: Reading | None = None
    versus: Reading | None = None
    scales: tuple[Scale, ...] = ()
    chapter: str = ""
    place: Place = _LAST
    names: tuple[str, ...] = ()
    #: Of the course: a lesson, a term, or the name of a page; its reader; answers by exercise.
    name: str = ""
    reader: str = ""
    answers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def read(self) -> Reading:
        """The reading that it is about.

        Raises:
            RequestError: It has none.
        """
        if self.reading is None:
            raise RequestError(message("no-run-named"))
        return self.reading


def parse_request(raw: object) -> PageRequest:
    """The request that JSON holds.

    Raises:
        RequestError: It holds none.
    """
    table = _table(raw, message("request"))
    kind = _text(table, "kind")
    if kind not in KINDS:
        raise RequestError(message("unknown-kind", kind=repr(kind), kinds=", ".join(KINDS)))
    return PageRequest(
        kind=kind,
        reading=_reading(table["reading"]) if "reading" in table else None,
        versus=_reading(table["versus"]) if table.get("versus") is not None else None,
        scales=_scales(table.get("scales", [])),
        chapter=_text(table, "chapter", ""),
        place=_place(table.get("place", {})),
        names=_names(table.get("names", [])),
        name=_name(table),
        reader=_reader(table),
        answers=_answers(table.get("answers", {})),
    )


def _reading(raw: object) -> Reading:
    table = _table(raw, "reading")
    sentence = _text(table, "sentence")
    if len(sentence) > LONGEST_SENTENCE:
        raise RequestError(message("long-sentence", n=len(sentence), most=LONGEST_SENTENCE))
    try:
        sentence.encode()
    except UnicodeEncodeError:
        raise RequestError(message("half-character")) from None
    run, checkpoint = _text(table, "run"), _text(table, "checkpoint", "")
    return Reading(run, checkpoint, sentence, _ids(table.get("ids", [])))


def _name(table: Mapping[str, object]) -> str:
    name = _text(table, "name", "")
    if len(name) > _LONGEST_NAME:
        raise RequestError(message("learn.long-name", most=_LONGEST_NAME))
    return name


def _reader(table: Mapping[str, object]) -> str:
    reader = _text(table, "reader", "")
    if reader not in ("", *READERS):
        raise RequestError(message("learn.bad-reader", readers=", ".join(READERS)))
    return reader


def _answers(raw: object) -> Mapping[str, str]:
    table = _table(raw, "answers")
    answers = {name: text for name, text in table.items() if isinstance(text, str)}
    is_short = all(len(text) <= _LONGEST_ANSWER for text in (*answers, *answers.values()))
    if len(answers) != len(table) or len(answers) > _MOST_ANSWERS or not is_short:
        raise RequestError(message("learn.bad-answers", most=_LONGEST_ANSWER))
    return answers


def _ids(raw: object) -> tuple[int, ...]:
    items = cast("list[object]", raw) if isinstance(raw, list) else [None]
    ids = tuple(item for item in items if type(item) is int and 0 <= item < 2**31)
    if len(ids) != len(items) or len(ids) > LONGEST_SENTENCE:
        raise RequestError(message("bad-ids", most=LONGEST_SENTENCE))
    return ids


def _names(raw: object) -> tuple[str, ...]:
    items = cast("list[object]", raw) if isinstance(raw, list) else [None]
    names = tuple(item for item in items if isinstance(item, str))
    if len(names) != len(items) or len(names) > MOST_CURVES:
        raise RequestError(message("bad-names", most=MOST_CURVES))
    return names


def _scales(raw: object) -> tuple[Scale, ...]:
    if not isinstance(raw, list) or len(cast("list[object]", raw)) > _MOST_SCALES:
        raise RequestError(message("many-scales", most=_MOST_SCALES))
    scales: list[Scale] = []
    for raw_scale in cast("list[object]", raw):
        table = _table(raw_scale, "scale")
        stack, cross = _text(table, "stack", "decoder"), _truth(table, "cross")
        layer, head = _integer(table, "layer"), _integer(table, "head")
        factor = _factor(table.get("by"))
        scales.append(Scale(stack=stack, layer=layer, head=head, factor=factor, cross=cross))
    return tuple(sorted(scales, key=lambda s: (s.stack, s.cross, s.layer, s.head)))


def _factor(raw: object) -> HeadScale:
    if raw == "mean":
        return "mean"
    if not isinstance(raw, int | float) or isinstance(raw, bool) or not math.isfinite(raw):
        raise RequestError(message("bad-factor"))
    if not 0 <= raw <= LARGEST_SCALE:
        raise RequestError(message("large-factor", most=LARGEST_SCALE, factor=raw))
    return float(raw)


def _place(raw: object) -> Place:
    table = _table(raw, "place")
    names = {field.name for field in fields(Place)}
    if not table.keys() <= names:
        raise RequestError(message("bad-place", names=", ".join(sorted(names)), raw=sorted(table)))
    stack = table.get("stack", "decoder")
    if stack not in ("decoder", "encoder"):
        raise RequestError(message("bad-stack"))
    cross = _truth(table, "cross")
    weight = _text(table, "weight", "")
    if len(weight) > _LONGEST_NAME:
        raise RequestError(message("long-weight"))
    words = ("stack", "cross", "weight")
    numbers = {name: _integer(table, name) for name in table if name not in words}
    return Place(**numbers, stack=cast("Any", stack), cross=cross, weight=weight)


def _table(raw: object, name: str) -> Mapping[str, object]:
    if not isinstance(raw, dict):
        raise RequestError(message("no-object", name=name))
    return cast("Mapping[str, object]", raw)


def _text(table: Mapping[str, object], key: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        raise RequestError(message("no-text", name=key))
    return value


def _truth(table: Mapping[str, object], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise RequestError(message("no-truth", name=key))
    return value


def _integer(table: Mapping[str, object], key: str) -> int:
    value = table.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 10**9:
        raise RequestError(message("no-integer", name=key))
    return value
