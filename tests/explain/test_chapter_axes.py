"""A chapter depends on the members of a place that its entry names, and on no others."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from pellucid.errors import PellucidError
from pellucid.explain import Trace
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import CHAPTERS, ChapterEntry, build_chapter
from pellucid.explain.selection import select_place
from support.models import build
from support.nightly import sampled
from support.traced import MODELS, traced

#: Another choice of each member of a place.
OTHER = {
    "token": 2,
    "other": 1,
    "layer": 1,
    "head": 1,
    "feature": 2,
    "weight": "token_embedding.weight",
    "row": 1,
    "column": 1,
    "stack": "encoder",
    "cross": True,
}
DECODER = Place(token=-1)


def places(trace: Trace) -> list[Place]:
    if len(trace.sides) == 1:
        return [DECODER]
    return [DECODER, replace(DECODER, stack="encoder"), replace(DECODER, cross=True)]


def content(trace: Trace, entry: ChapterEntry, place: Place) -> str:
    try:
        return str(build_chapter(trace, entry.id, place))
    except PellucidError as error:
        return str(error)


def elsewhere(trace: Trace, entry: ChapterEntry, place: Place) -> Place:
    """The place with all other members changed for which the model has another choice."""
    for axis in sorted(OTHER.keys() - set(entry.axes)):
        other = replace(place, **{axis: OTHER[axis]})
        try:
            select_place(trace, other)
        except PellucidError:
            continue
        place = other
    return place


@pytest.mark.parametrize("name", sampled(MODELS, every=len(MODELS)))
def test_nothing_else_of_a_place_changes_a_chapter(name: str) -> None:
    text_trace = traced(build(MODELS[name]), time=4)
    for entry, place in product(CHAPTERS, places(text_trace)):
        other = elsewhere(text_trace, entry, place)
        assert content(text_trace, entry, other) == content(text_trace, entry, place), (
            entry.id,
            other,
        )


@pytest.mark.parametrize("axis", ["token", "layer", "head", "other", "feature"])
def test_a_chapter_changes_along_an_axis_that_its_entry_names(axis: str) -> None:
    text_trace = traced(build(MODELS["shaw with values"]), time=4)
    (entry,) = (entry for entry in CHAPTERS if entry.id == "softmax")
    assert content(text_trace, entry, DECODER) != content(
        text_trace, entry, replace(DECODER, **{axis: OTHER[axis]})
    )
