"""The list of chapters, in the order of the story.

Adding one is a file of its own and a row here; its number is its place in the list.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace

from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Chapter, Part, Place
from pellucid.explain.chapters import (
    after_update,
    backward,
    compare,
    embedding,
    feed_forward,
    film,
    finite_difference,
    gradients,
    head_gradient,
    heads,
    lens,
    local_gradients,
    loss,
    norm,
    positions,
    probabilities,
    qkv,
    residual,
    scores,
    softmax,
    tokens,
    update,
)
from pellucid.explain.trace_types import Trace


@dataclass(frozen=True, slots=True)
class ChapterEntry:
    """A chapter: its name, its title and part of the story, what it is about, what builds it.

    `walks` says that it takes the way back through all layers, which of a large model is done when
    it is asked for. `once` says that a file holds it at one place alone, and `axes` what of a place
    it is about where that cannot be seen from a few places. `against` sets two traces side by side.
    """

    id: str
    title: str
    part: Part
    summary: str
    build: Callable[[Trace, Place], Chapter]
    walks: bool = False
    at_one_place: bool = False
    axes: tuple[str, ...] = ()
    build_comparison: Callable[[Trace, Trace, Place], Chapter] | None = None


_WEIGHT = ("weight", "row", "column")

CHAPTERS: tuple[ChapterEntry, ...] = (
    ChapterEntry(
        "tokens", "Tokens", "forward", "how the tokenizer cuts the sentence", tokens.build
    ),
    ChapterEntry(
        "embedding",
        "Embedding",
        "forward",
        "a row of numbers for each token, and its neighbours",
        embedding.build,
    ),
    ChapterEntry(
        "positions",
        "Positions",
        "forward",
        "how the model knows where a token stands",
        positions.build,
    ),
    ChapterEntry("norm", "Norm", "forward", "features brought to a common scale", norm.build),
    ChapterEntry(
        "qkv", "Queries, keys, values", "forward", "queries, keys and values of a head", qkv.build
    ),
    ChapterEntry("scores", "Scores", "forward", "how well a query matches each key", scores.build),
    ChapterEntry(
        "softmax", "Softmax", "forward", "scores become shares; what the head finds", softmax.build
    ),
    ChapterEntry("heads", "Heads", "forward", "all heads at once, by where they look", heads.build),
    ChapterEntry(
        "residual",
        "Residual stream",
        "forward",
        "what each part adds to one prediction",
        residual.build,
    ),
    ChapterEntry(
        "feed-forward",
        "Feed-forward",
        "forward",
        "the units that speak for a token",
        feed_forward.build,
    ),
    ChapterEntry(
        "lens", "Logit lens", "forward", "what would be predicted after each layer", lens.build
    ),
    ChapterEntry(
        "probabilities",
        "Probabilities",
        "forward",
        "logits, probabilities, and how a token is drawn",
        probabilities.build,
    ),
    ChapterEntry("loss", "Loss", "forward", "what each token cost", loss.build),
    ChapterEntry(
        "backward",
        "Backward",
        "backward",
        "p - y: where every gradient begins",
        backward.build,
    ),
    ChapterEntry(
        "head-gradient",
        "The head's gradient",
        "backward",
        "the head's own gradient, and both ways of a tied table",
        head_gradient.build,
        walks=True,
    ),
    ChapterEntry(
        "gradients",
        "Gradients",
        "backward",
        "how far the loss reaches back, by layer and matrix",
        gradients.build,
        walks=True,
    ),
    ChapterEntry(
        "rules",
        "Local rules",
        "backward",
        "how a gradient passes a softmax, a sum, a norm",
        local_gradients.build,
        walks=True,
    ),
    ChapterEntry(
        "nudge",
        "Nudge",
        "backward",
        "a weight moved a little: is its gradient true?",
        finite_difference.build,
        walks=True,
        at_one_place=True,
        axes=("stack", "layer", *_WEIGHT),
    ),
    ChapterEntry(
        "update",
        "Update",
        "update",
        "the optimiser's step on one weight, number by number",
        update.build,
        walks=True,
        axes=_WEIGHT,
    ),
    ChapterEntry(
        "after-update",
        "After the step",
        "update",
        "one step on a copy, and the sentence again",
        after_update.build,
        walks=True,
        at_one_place=True,
        axes=("stack", "token"),
    ),
    ChapterEntry(
        "over-time",
        "Over time",
        "over time",
        "the sentence while the model was trained",
        film.build,
    ),
    ChapterEntry(
        "compare",
        "Compare",
        "compare",
        "another checkpoint, model or sentence beside it",
        compare.explain_how,
        build_comparison=compare.build,
    ),
)


def find_chapter(name: str) -> ChapterEntry:
    """The chapter of that name.

    Raises:
        PellucidError: there is none; the message lists those there are.
    """
    for entry in CHAPTERS:
        if entry.id == name:
            return entry
    names = [entry.id for entry in CHAPTERS]
    similar = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {similar[0]!r}" if similar else ""
    raise PellucidError(f"there is no chapter {name!r}{hint}; chapters: {', '.join(names)}")


def build_chapter(trace: Trace, name: str, place: Place, versus: Trace | None = None) -> Chapter:
    """One chapter at a place; `versus` is what it is compared with, where it compares.

    Raises:
        PellucidError: there is no such chapter, or the place is not in the trace.
    """
    entry = find_chapter(name)
    if versus is not None and entry.build_comparison is not None:
        chapter = entry.build_comparison(trace, versus, place)
    else:
        chapter = entry.build(trace, place)
    number = 1 + CHAPTERS.index(entry)
    return replace(chapter, id=entry.id, number=number, part=entry.part, title=entry.title)
