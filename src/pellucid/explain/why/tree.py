"""Paths as a tree, from the prediction down to embeddings: each branch is a part of its parent.

A head that reads a token carries weight x W_o W_v of the token's stream. That stream is taken apart
again, along the direction in which the head reads it, and so on. Branches below a share of the
difference are added up as "others".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.catalogue import message
from pellucid.explain.forward_pass import Side
from pellucid.explain.selection import label
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.attribution import Attribution
from pellucid.explain.why.path_types import Branch
from pellucid.explain.why.paths import read_back
from pellucid.explain.why.sublayers import (
    HeadReading,
    Sublayer,
    attention_of,
    gated,
    read_attention,
)
from pellucid.explain.why.types import Part, SourceShare
from pellucid.explain.why.walk import Walk, walk_down

#: Branches below this share of the difference are added up, and no node has more than so many.
SMALLEST = 0.05
_BRANCHES = 5
#: Streams that are taken apart, at most.
_STREAMS = 24


@dataclass(slots=True)
class _StreamWalk(Walk):
    """A walk that leaves out the units of feed-forwards."""

    def take_sublayer(self, name: str, sublayer: Sublayer) -> None:
        """Keep the parts of attention, and a feed-forward as a whole."""
        attention = None if name == "feed_forward" else attention_of(sublayer, name)
        if attention is None:
            self.add(sublayer.part(name, "feed-forward", sublayer.read(name)))
            return
        parts, readings = read_attention(sublayer, name, attention)
        self.heads += readings
        for part in parts:
            self.add(part)


@torch.no_grad()
def grow_tree(trace: Trace, attribution: Attribution) -> Branch:
    """The tree of an answer, as `trace.why` gives it.

    Raises:
        PellucidError: a part of the model states no facts.
    """
    difference = attribution.rivals.difference
    root = Branch(message("word.the-end"), attribution.total, trace.side)
    smallest = SMALLEST * abs(difference)
    waiting = list(
        _branch(
            root,
            trace,
            attribution.parts,
            attribution.readings,
            attribution.places,
            smallest,
        )
    )
    for _ in range(_STREAMS):
        if not waiting:
            break
        waiting.sort(key=lambda stream: -abs(stream.branch.share))
        stream = waiting.pop(0)
        walk = _StreamWalk(
            trace=trace,
            side=stream.side,
            layer=stream.layer,
            places=[stream.token],
            direction=stream.direction,
        )
        walk_down(walk)
        walk.add(
            Part(
                name=message("why.bias-of-values"),
                kind="constant",
                side=walk.side,
                layer=None,
                share=stream.constant,
            )
        )
        waiting += _branch(stream.branch, trace, walk.parts, walk.heads, walk.places, smallest)
    return root


@dataclass(frozen=True, slots=True)
class _Stream:
    """A stream to take apart: the direction in which a head reads it, (1, d_model)."""

    branch: Branch
    side: Side
    layer: int
    token: int
    direction: Tensor
    constant: float


def _branch(
    branch: Branch,
    trace: Trace,
    parts: Sequence[Part],
    readings: Sequence[HeadReading],
    places: list[int],
    smallest: float,
) -> Iterator[_Stream]:
    """Give a branch its children; yields the streams that heads among them read."""
    by_name = {part.name: part for part in parts}
    heads = [
        (source, reading)
        for reading in readings
        for source in reading.largest
        if abs(source.share) >= smallest
    ]
    leaves = [
        part
        for part in parts
        if part.kind not in ("head", "constant") and abs(part.share) >= smallest
    ]
    ranked: list[tuple[float, Part | tuple[SourceShare, HeadReading]]] = [
        *((part.share, part) for part in leaves),
        *((source.share, (source, reading)) for source, reading in heads),
    ]
    ranked.sort(key=lambda pair: -abs(pair[0]))
    children: list[Branch] = []
    for share, item in ranked[:_BRANCHES]:
        if isinstance(item, Part):
            children.append(Branch(item.name, share, item.side))
            continue
        source, reading = item
        stream = _read_stream(trace, source, reading, by_name[source.name], places)
        children.append(stream.branch)
        yield stream
    others = branch.share - sum(child.share for child in children)
    if children and abs(others) > 1e-9:
        children.append(Branch(message("word.others"), others, branch.side))
    branch.children = tuple(children)


def _read_stream(
    trace: Trace, source: SourceShare, reading: HeadReading, part: Part, places: list[int]
) -> _Stream:
    """The stream that a head reads, and the direction in which it reads it."""
    place = reading.place
    assert part.direction is not None
    attention = trace.attention(place.side, place.layer, cross=place.cross)
    row = places.index(source.query)
    direction = gated(attention, place.head, places, part.direction)[row] * source.weight
    into_values = torch.zeros_like(attention.v[0], dtype=torch.float64)
    group = place.head * into_values.shape[0] // attention.n_heads
    into_values[group, source.key] = direction
    side: Side = "encoder" if place.cross else place.side
    layer = trace.n_layers("encoder") if place.cross else place.layer
    into_stream, constant = read_back(trace, place, attention, into_values)
    branch = Branch(source.name, source.share, side, source.key, source.weight)
    return _Stream(branch, side, layer, source.key, into_stream[[source.key]], constant)


def list_branches(trace: Trace, root: Branch, depth: int = 0) -> Iterator[tuple[int, str, Branch]]:
    """Each branch below a root with its depth and its text, a parent before its children."""
    for child in root.children:
        text = child.name
        if child.token is not None:
            text = message(
                "why.reads", name=child.name, token=label(trace.pieces(child.side), child.token)
            )
        yield depth, text, child
        yield from list_branches(trace, child, depth + 1)
