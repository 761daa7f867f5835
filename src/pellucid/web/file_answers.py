"""The answers that a one-file page holds, by their keys.

They are the session's own answers at the places that someone is likely to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import find_chapter
from pellucid.json_text import json_text
from pellucid.web.json_payload import Plain, text_of, with_messages

#: Without `full`, a model with more heads gets only the first head of each layer.
_MOST_HEADS = 48
#: The axes of a place, in the order of keys.
_AXES = tuple(field.name for field in fields(Place))

Watch = Callable[[int, int], None]


def collect_answers(
    ask: Callable[..., Plain], first: Place, full: bool, watch: Watch, runs: Callable[[], Plain]
) -> dict[str, Any]:
    """The answers by their keys; equal answers and equal pictures are stored once.

    Args:
        ask: Answers a request of a kind.
        first: The place that the page shows first.
        full: Whether to hold every place.
        watch: Called before each answer with the number of finished ones and their total.
        runs: Gives the list of runs.
    """
    overview = ask("overview")
    is_cut = overview["backward"]["large"] and not full
    if is_cut:
        overview["backward"] = {"there": False, "large": True, "done": False}
    questions: dict[str, Callable[[], Plain]] = {"runs": runs, "overview": lambda: overview}
    if overview["backward"]["there"]:
        questions["backward"] = partial(ask, "backward")
    for token in range(len(overview["ids"])):
        questions[f"prediction {token}"] = partial(ask, "prediction", place=Place(token=token))
    for stack in dict.fromkeys(stack["name"] for stack in overview["stacks"]):
        encodes = stack == "encoder" and bool(overview["spare"])
        for token in range(len(overview["spare"] if encodes else overview["ids"])):
            place = Place(stack=stack, token=token)
            questions[f"machine {stack} {token}"] = partial(ask, "machine", place=place)
    for place in _places_without_thumbnails(overview):
        key = f"thumbnails {place.stack} {_plain(place.cross)} {place.layer}"
        questions[key] = partial(ask, "thumbnails", place=place)
    if not (first.stack == "encoder" and overview["spare"]):
        first = replace(first, token=first.token % len(overview["ids"]))
    bodies, pictures = _Deduplicated(), _Deduplicated()
    axes, chapters = _list_chapters(overview, list(_places(overview, first, full)), is_cut)
    for key, (name, place) in chapters.items():
        questions[key] = partial(_chapter_body, ask, name, place, pictures)
    answers: dict[str, int] = {}
    for n_done, (key, question) in enumerate(questions.items()):
        watch(n_done, len(questions))
        answers[key] = bodies.place(question())
    return {
        "answers": answers,
        "bodies": [with_messages(body) for body in bodies.all],
        "pictures": [with_messages(picture) for picture in pictures.all],
        "axes": axes,
    }


def _places_without_thumbnails(overview: Plain) -> Iterator[Place]:
    """The layers whose heads' maps are not in the overview."""
    for stack in overview["stacks"]:
        for layer, facts in enumerate(stack["layers"]):
            if facts["heads"] and facts["thumbnails"] is None:
                yield Place(layer=layer, stack=stack["name"], cross=stack["cross"])


def _list_chapters(
    overview: Plain, places: list[Place], is_cut: bool
) -> tuple[dict[str, list[str]], dict[str, tuple[str, Place | None]]]:
    """The axes of each chapter, and the chapters by key; one without a place is left out.

    A layer's chapters follow each other, so that each layer is opened once.
    """
    one_stack = len(overview["stacks"]) == 1
    axes: dict[str, list[str]] = {}
    chapters: dict[str, tuple[str, Place | None]] = {}
    for heading in overview["contents"]:
        name, is_left_out = heading["id"], is_cut and heading["walks"]
        relevant: list[str] = [] if is_left_out else heading["axes"]
        axes[name] = [
            axis
            for axis in _AXES
            if axis in relevant and not (one_stack and axis in ("stack", "cross"))
        ]
        for place in _chapter_places(heading, places, is_cut):
            chapters.setdefault(
                _key(name, place, axes[name]), (name, None if is_left_out else place)
            )
    by_layer = sorted(chapters.items(), key=lambda item: _layer_of(item[1][1]))
    return axes, dict(by_layer)


def _layer_of(place: Place | None) -> tuple[str, int]:
    return ("", 0) if place is None else (place.stack, place.layer)


def _chapter_body(
    ask: Callable[..., Plain], name: str, place: Place | None, pictures: _Deduplicated
) -> Plain:
    if place is None:
        return {"error": message("large-file")}
    try:
        chapter = ask("chapter", chapter=name, place=place)
    except PellucidError as error:  # the page shows why this place has no such chapter
        return {"error": text_of(error)}
    return chapter | {"pictures": [pictures.place(picture) for picture in chapter["pictures"]]}


def _chapter_places(heading: Plain, places: list[Place], is_cut: bool) -> list[Place]:
    """The places of a chapter; with `is_cut` the first, or all layers if it reads one layer."""
    if heading["once"] or (is_cut and not find_chapter(heading["id"]).one_layer):
        return places[:1]
    if not is_cut:
        return places
    layers = sorted({place.layer for place in places if place.stack == places[0].stack})
    return [places[0], *(replace(places[0], layer=n) for n in layers if n != places[0].layer)]


class _Deduplicated:
    """A list of plain values without repetitions."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._index: dict[str, int] = {}

    def place(self, value: Any) -> int:
        """The index of a value, which is added if it is new."""
        text = json_text(value, sort_keys=True)
        if text not in self._index:
            self._index[text] = len(self.all)
            self.all.append(value)
        return self._index[text]


def _places(overview: Plain, first: Place, full: bool) -> Iterator[Place]:
    """The places of chapters: `first`, and all that differ from it in one axis."""
    names = [(stack["name"], stack["cross"]) for stack in overview["stacks"]]
    n_heads = sum(layer["heads"] for stack in overview["stacks"] for layer in stack["layers"])
    every_head = full or n_heads <= _MOST_HEADS
    if (first.stack, first.cross) not in names:
        first = replace(first, stack=names[0][0], cross=names[0][1])
    yield first
    yield replace(first, feature=first.feature + 1)
    n_source = len(overview["spare"])
    for stack in overview["stacks"]:
        name, cross = stack["name"], stack["cross"]
        encodes = n_source > 0 and name == "encoder"
        tokens = range(n_source if encodes else len(overview["ids"]))
        keys = range(n_source if encodes or cross else len(overview["ids"]))
        start = replace(first, stack=name, cross=cross)
        if (name, cross) != (first.stack, first.cross):
            # another text has other places: the page begins at its first token
            start = replace(start, token=0 if encodes else -1, other=0)
        start = replace(start, token=start.token % len(tokens), other=start.other % len(keys))
        yield start
        for layer, facts in enumerate(stack["layers"]):
            heads = range(max(1, facts["heads"]) if every_head or layer == first.layer else 1)
            for head in heads:
                yield replace(start, layer=layer, head=head)
                for token in tokens if full else ():
                    yield replace(start, layer=layer, head=head, token=token)
        for token in tokens:
            yield replace(start, token=token)
        for key in keys:
            yield replace(start, other=key)


def _key(chapter: str, place: Place, axes: list[str]) -> str:
    return " ".join([chapter, *(f"{axis}={_plain(getattr(place, axis))}" for axis in axes)])


def _plain(value: object) -> str:
    """The value as JavaScript writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
