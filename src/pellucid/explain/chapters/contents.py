"""The list of chapters, in the order of the story.

To add one, write its file and a row here; its number is its place in the list.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pellucid.catalogue import join, message
from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Content, Part
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
    why,
)
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace


@dataclass(frozen=True, slots=True)
class ChapterEntry:
    """A chapter: its name, title and summary, its builder, and its part of the story.

    `needs_loss` means that it has no content for a sentence without a loss. `walks` means that it
    runs the backward pass through all layers; for a large model this starts when you ask for it.
    `at_one_place` means that a one-file page holds it at one place only. `one_layer` means that it
    reads one layer alone, so even the file of a large model holds it at every layer. `axes` are the
    members of a place that it depends on: a one-file page holds one view for each choice of them.
    `build_comparison` compares two traces.
    """

    id: str
    title: str
    summary: str
    build: Callable[[Trace, Selection], Content]
    axes: tuple[str, ...]
    part: Part
    needs_loss: bool = False
    walks: bool = False
    at_one_place: bool = False
    one_layer: bool = False
    build_comparison: Callable[[Trace, Trace, Selection], Content] | None = None


_forward = partial(ChapterEntry, part="forward")
_backward = partial(ChapterEntry, part="backward", needs_loss=True, walks=True)
_update = partial(ChapterEntry, part="update", needs_loss=True, walks=True)
_TOKEN = ("stack", "token")
_LAYER = (*_TOKEN, "layer")
_HEAD = (*_LAYER, "head", "cross")
_WEIGHT = ("stack", "layer", "weight", "row", "column")

CHAPTERS: tuple[ChapterEntry, ...] = (
    _forward(
        "why",
        message("contents.why-this-word"),
        "what each part adds to a word rather than another one",
        why.build,
        _TOKEN,
        at_one_place=True,
    ),
    _forward(
        "tokens",
        message("contents.tokens"),
        "how the tokenizer cuts the sentence",
        tokens.build,
        ("stack",),
    ),
    _forward(
        "embedding",
        message("contents.embedding"),
        "each token's row, and its neighbours",
        embedding.build,
        (*_TOKEN, "feature"),
    ),
    _forward(
        "positions",
        message("contents.positions"),
        "how the model knows the order of tokens",
        positions.build,
        (*_HEAD, "other", "feature"),
    ),
    _forward(
        "norm",
        message("contents.norm"),
        "features brought to a common scale",
        norm.build,
        (*_LAYER, "feature"),
        one_layer=True,
    ),
    _forward(
        "qkv",
        message("contents.queries-keys-values"),
        "queries, keys and values of a head",
        qkv.build,
        (*_HEAD, "other", "feature"),
        one_layer=True,
    ),
    _forward(
        "scores",
        message("contents.scores"),
        "how well a query matches each key",
        scores.build,
        (*_HEAD, "other"),
        one_layer=True,
    ),
    _forward(
        "softmax",
        message("contents.softmax"),
        "scores become weights; the head's output",
        softmax.build,
        (*_HEAD, "other", "feature"),
        one_layer=True,
    ),
    _forward(
        "heads",
        message("contents.heads"),
        "all heads at once, by where they look",
        heads.build,
        _HEAD,
    ),
    _forward(
        "residual",
        message("contents.residual-stream"),
        "what each part adds to a prediction",
        residual.build,
        (*_LAYER, "feature"),
    ),
    _forward(
        "feed-forward",
        message("contents.feed-forward"),
        "the units that write most",
        feed_forward.build,
        (*_LAYER, "feature"),
        one_layer=True,
    ),
    _forward(
        "lens",
        message("contents.logit-lens"),
        "the prediction after each layer",
        lens.build,
        _TOKEN,
    ),
    _forward(
        "probabilities",
        message("contents.probabilities"),
        "logits, and how a token is sampled",
        probabilities.build,
        _TOKEN,
    ),
    _forward(
        "loss",
        message("contents.loss"),
        "the loss of each token",
        loss.build,
        _TOKEN,
        needs_loss=True,
    ),
    _backward(
        "backward",
        message("contents.backward"),
        "p - y: every gradient begins here",
        backward.build,
        _TOKEN,
        walks=False,
    ),
    _backward(
        "head-gradient",
        message("contents.the-head-gradient"),
        "the gradient of the head, and both paths to a tied table",
        head_gradient.build,
        (*_TOKEN, "feature"),
    ),
    _backward(
        "gradients",
        message("contents.gradients"),
        "how far the loss reaches back, by layer and matrix",
        gradients.build,
        (*_LAYER, "feature"),
    ),
    _backward(
        "rules",
        message("contents.local-rules"),
        "how a gradient passes a softmax, a sum, a norm",
        local_gradients.build,
        (*_HEAD, "other", "feature"),
    ),
    _backward(
        "nudge",
        message("contents.nudge"),
        "a weight moved a little: is its gradient true?",
        finite_difference.build,
        _WEIGHT,
        at_one_place=True,
    ),
    _update(
        "update",
        message("contents.update"),
        "the optimiser's step on one weight, number by number",
        update.build,
        _WEIGHT,
    ),
    _update(
        "after-update",
        message("contents.after-the-step"),
        "one step on a copy, and the sentence again",
        after_update.build,
        _TOKEN,
        at_one_place=True,
    ),
    ChapterEntry(
        "over-time",
        message("contents.over-time"),
        "the sentence during the training",
        film.build,
        _HEAD,
        "over time",
    ),
    ChapterEntry(
        "compare",
        message("contents.compare"),
        "another checkpoint, model or sentence next to this one",
        compare.explain_how,
        _HEAD,
        "compare",
        build_comparison=compare.build,
    ),
)


def find_chapter(name: str) -> ChapterEntry:
    """The chapter of that name.

    Raises:
        PellucidError: there is none; the message lists all names.
    """
    for entry in CHAPTERS:
        if entry.id == name:
            return entry
    names = [entry.id for entry in CHAPTERS]
    similar = difflib.get_close_matches(name, names, n=1)
    hint = message("contents.did-you-mean", similar=repr(similar[0])) if similar else ""
    raise PellucidError(
        message(
            "contents.there-is-no-chapter-chapters",
            name=repr(name),
            hint=hint,
            names=join(", ", names),
        )
    )
