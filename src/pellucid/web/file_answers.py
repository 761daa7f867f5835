"""The answers that a one-file page holds, by their keys.

They are the session's own answers at the places that someone is likely to choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
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
    ask: Callable[..., Plain], first: Place, full: bool, watch: Watch
) -> dict[str, Any]:
    """The answers by their keys; equal answers and equal pictures are stored once."""
    overview = ask("overview")
    cut = overview["backward"]["large"] and not full
    if cut:
        overview["backward"] = {"there": False, "large": True, "done": False}
    bodies, pictures, answers = _Deduplicated(), _Deduplicated(), dict[str, int]()

    def keep(key: str, body: Any) -> None:
        answers[key] = bodies.place(body)

    keep("overview", overview)
    if not (first.stack == "encoder" and overview["spare"]):
        first = replace(first, token=first.token % len(overview["ids"]))
    places = list(dict.fromkeys(_places(overview, first, full)))
    headings = overview["contents"]
    plan = {heading["id"]: _chapter_places(heading, places, cut) for heading in headings}
    n_tokens = len(overview["ids"])
    n_done, total = 0, n_tokens + sum(map(len, plan.values()))
    if overview["backward"]["there"]:
        keep("backward", ask("backward"))
    for n_done in range(n_tokens):
        watch(n_done, total)
        keep(f"prediction {n_done}", ask("prediction", place=Place(token=n_done)))
    for stack in overview["stacks"]:
        for layer, facts in enumerate(stack["layers"]):
            if facts["heads"] and facts["thumbnails"] is None:
                place = Place(layer=layer, stack=stack["name"], cross=stack["cross"])
                axes_of = f"{stack['name']} {_plain(stack['cross'])} {layer}"
                keep(f"thumbnails {axes_of}", ask("thumbnails", place=place))
    axes: dict[str, list[str]] = {}
    for heading in headings:
        name, chapter_bodies = heading["id"], dict[Place, Any]()
        is_left_out = cut and heading["walks"]
        for place in plan[name]:
            n_done += 1
            watch(n_done, total)
            chapter_bodies[place] = (
                {"error": message("large-file")}
                if is_left_out
                else _chapter_body(ask, name, place, pictures)
            )
        # a large model's file tries too few places to know along which axes a chapter changes
        relevant = {*_AXES} if cut else {*_relevant_axes(chapter_bodies), *heading["axes"]}
        axes[name] = [axis for axis in _AXES if axis in relevant and not is_left_out]
        for place, body in chapter_bodies.items():
            keep(_key(name, place, axes[name]), body)
    return {
        "answers": answers,
        "bodies": [with_messages(body) for body in bodies.all],
        "pictures": [with_messages(picture) for picture in pictures.all],
        "axes": axes,
    }


def _chapter_body(
    ask: Callable[..., Plain], name: str, place: Place, pictures: _Deduplicated
) -> Plain:
    try:
        chapter = ask("chapter", chapter=name, place=place)
    except PellucidError as error:  # the page shows why this place has no such chapter
        return {"error": text_of(error)}
    return chapter | {"pictures": [pictures.place(picture) for picture in chapter["pictures"]]}


def _chapter_places(heading: Plain, places: list[Place], cut: bool) -> list[Place]:
    """The places of a chapter; with `cut` the first, or all layers if it reads one layer alone."""
    if heading["once"] or (cut and not find_chapter(heading["id"]).one_layer):
        return places[:1]
    if not cut:
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


def _relevant_axes(bodies: Mapping[Place, Any]) -> list[str]:
    """The axes along which a chapter changes; only these are part of its key."""
    relevant: list[str] = []
    for axis in _AXES:
        groups: dict[Any, set[str]] = {}
        for place, body in bodies.items():
            other_axes = tuple(getattr(place, name) for name in _AXES if name != axis)
            groups.setdefault(other_axes, set()).add(json_text(body, sort_keys=True))
        if any(len(variants) > 1 for variants in groups.values()):
            relevant.append(axis)
    return relevant


def _key(chapter: str, place: Place, axes: list[str]) -> str:
    return " ".join([chapter, *(f"{axis}={_plain(getattr(place, axis))}" for axis in axes)])


def _plain(value: object) -> str:
    """The value as JavaScript writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
