"""A chapter depends on the members of a place that its entry names, and on no others."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from pellucid.errors import PellucidError
from pellucid.explain import Trace
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import CHAPTERS, ChapterEntry, build_chapter
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


@pytest.mark.parametrize("name", sampled(MODELS, every=len(MODELS)))
def test_nothing_else_of_a_place_changes_a_chapter(name: str) -> None:
    found = traced(build(MODELS[name]), time=4)
    two_stacks = len(found.sides) == 2
    axes = [axis for axis in OTHER if two_stacks or axis not in ("stack", "cross")]
    for entry, place in product(CHAPTERS, places(found)):
        first = content(found, entry, place)
        others = {axis: OTHER[axis] for axis in axes if axis not in entry.axes}
        assert content(found, entry, replace(place, **others)) == first, (entry.id, others, place)


@pytest.mark.parametrize("axis", ["token", "layer", "head", "other", "feature"])
def test_a_chapter_changes_along_an_axis_that_its_entry_names(axis: str) -> None:
    found = traced(build(MODELS["shaw with values"]), time=4)
    (entry,) = (entry for entry in CHAPTERS if entry.id == "softmax")
    assert content(found, entry, DECODER) != content(
        found, entry, replace(DECODER, **{axis: OTHER[axis]})
    )
