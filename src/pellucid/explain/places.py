"""A place that was chosen, held against a trace: each number within what there is.

Comes in: a trace and a `Place`. Goes out: the same place, counted from the front, with the
addresses and words that belong to it; or a refusal that says what there is.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.errors import PellucidError
from pellucid.explain.addresses import letter_of
from pellucid.explain.chapter import Place
from pellucid.explain.listening import KNOWN, Look
from pellucid.explain.passage import HeadPlace, Side, attention_at
from pellucid.explain.tracing import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A place in one trace: `token` asks, `other` is asked, both counted from 0."""

    side: Side
    layer: int
    head: int
    cross: bool
    token: int
    other: int
    feature: int

    @property
    def layer_name(self) -> str:
        """Such as L2."""
        return f"{letter_of(self.side)}{self.layer}"

    @property
    def head_name(self) -> str:
        """Such as L2.H1, or L2.H1.cross."""
        return f"{self.layer_name}.H{self.head}" + (".cross" if self.cross else "")

    def as_head(self) -> HeadPlace:
        """The head, as ablations name it."""
        return HeadPlace(self.side, self.layer, self.head, self.cross)

    def look(self, trace: Trace) -> Look:
        """What the layer's attention did."""
        return trace.look(self.side, self.layer, cross=self.cross)

    def query(self, trace: Trace) -> str:
        """The token that asks, quoted, with its place."""
        return f"{trace.pieces(self.side)[self.token]!r} ({self.token})"

    def key(self, trace: Trace) -> str:
        """The token that is asked."""
        pieces = trace.pieces("encoder" if self.cross else self.side)
        return f"{pieces[self.other]!r} ({self.other})"

    def pair(self, trace: Trace) -> str:
        """Who asks, and who is asked."""
        return f"query {self.query(trace)}, key {self.key(trace)}"


def settled(trace: Trace, place: Place) -> Chosen:
    """The place, held against a trace.

    A model of an encoder alone has one stack, which is then meant. Where no key was chosen that the
    query may see, a feature that there is not, or a head of a layer without heads, the chapter
    says so itself.

    Raises:
        PellucidError: there is no such token, layer, head or stack; says what there is.
    """
    side = place.stack if len(trace.sides) == 2 else trace.side
    passed = trace.passed(side)
    _within(place.layer, len(passed.stack.blocks), f"layer {place.layer} of the {side}", "layers")
    layer = place.layer % len(passed.stack.blocks)
    cross = place.cross
    if cross and (side == "encoder" or len(trace.sides) == 1):
        raise PellucidError(
            "attention to an encoder was asked for, but there is none: only the decoder of an "
            "encoder-decoder looks at another text"
        )
    time = len(trace.pieces(side))
    keys = len(trace.pieces("encoder")) if cross else time
    _within(place.token, time, f"token {place.token}", "tokens")
    _within(place.other, keys, f"token {place.other} to look at", "tokens")
    head, attention = place.head, attention_at(trace.model, HeadPlace(side, layer, 0, cross))
    if isinstance(attention, KNOWN):
        _within(head, attention.n_heads, f"head {head} of layer {layer}", "heads")
        head %= attention.n_heads
    width = passed.final.shape[-1]
    _within(place.feature, width, f"feature {place.feature}", "features")
    return Chosen(
        side=side,
        layer=layer,
        head=head,
        cross=cross,
        token=place.token % time,
        other=place.other % keys,
        feature=place.feature % width,
    )


def _within(number: int, count: int, called: str, many: str) -> None:
    if not -count <= number < count:
        there = f"{count:,} {many}" if count > 1 else f"one {many.removesuffix('s')}"
        raise PellucidError(f"there is no {called}: there are {there}, counted from 0")
