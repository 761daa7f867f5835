"""The residual stream, walked back from a layer: the share of each part along a direction.

Start with a direction u before a layer, one row for each token that is read. u · stream is the
number to take apart. Each block added its sublayers to the stream, so u · stream is a sum of
u · sublayer. A norm between is held (see `held`), and u becomes A^T u before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from pellucid.errors import PellucidError
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.equations.equation import stack_prefix
from pellucid.explain.forward_pass import Side, StackPass
from pellucid.explain.part_facts import is_identity
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.held import Pulled, pull_linear, pull_norm
from pellucid.explain.why.sublayers import (
    HeadReading,
    Sublayer,
    attention_of,
    read_attention,
    read_feed_forward,
)
from pellucid.explain.why.types import Part, PartKind, UnitShare
from pellucid.model.facts import BlockFacts, ResidualFacts, UnknownFacts, block_facts

#: How many units of one layer are kept.
_UNITS = 20


@dataclass(slots=True)
class Walk:
    """A walk on its way down: its place, and the parts that it has found above.

    `direction` is (tokens, features), of the stream before layer `layer`, for each of `places`.
    """

    trace: Trace
    side: Side
    layer: int
    places: list[int]
    direction: Tensor
    parts: list[Part] = field(default_factory=list[Part])
    units: list[UnitShare] = field(default_factory=list[UnitShare])
    heads: list[HeadReading] = field(default_factory=list[HeadReading])
    #: whether a norm between the parts and the end was held
    held_norms: bool = False

    @property
    def stack_pass(self) -> StackPass:
        """The stack that is walked."""
        return self.trace.stack_pass(self.side)

    @property
    def layer_name(self) -> str:
        """Such as L2."""
        return f"{stack_letter(self.side)}{self.layer}"

    @property
    def share(self) -> float:
        """u · stream: the number that the parts below add up to."""
        states = self.stack_pass.states[self.layer][0, self.places].double()
        return float((self.direction * states).sum())

    def explained(self) -> float:
        """The sum of all shares above."""
        return sum(part.share for part in self.parts)

    def add(self, part: Part) -> None:
        """Keep a part; a constant of 0 is none."""
        if part.kind != "constant" or part.share:
            self.parts.append(part)

    def take_sublayer(self, name: str, sublayer: Sublayer) -> None:
        """Keep the parts of one sublayer."""
        if name == "feed_forward":
            parts, units = read_feed_forward(sublayer)
            self.units += sorted(units, key=lambda unit: -abs(unit.share))[:_UNITS]
        else:
            attention = attention_of(sublayer, name)
            parts, readings = read_attention(sublayer, name, attention)
            self.heads += reversed(readings)
        for part in reversed(parts):  # the walk goes back, and so does its list
            self.add(part)

    def take_entry(self, name: str, kind: PartKind, vectors: Tensor) -> None:
        """Keep what enters the first block: (tokens, features) of the embedding or of positions."""
        share = float((self.direction * vectors).sum())
        direction = None if kind == "constant" else self.direction
        self.add(
            Part(
                name=name,
                kind=kind,
                side=self.side,
                layer=None,
                share=share,
                direction=direction,
            )
        )

    def constant(self, name: str, pulled: Pulled) -> Tensor:
        """Keep what a map adds in any text; gives the direction before it."""
        layer = None if name.startswith(("input", "encoder.input")) else self.layer
        self.add(
            Part(name=name, kind="constant", side=self.side, layer=layer, share=pulled.constant)
        )
        return pulled.direction


@torch.no_grad()
def walk_down(walk: Walk) -> None:
    """Walk to the embeddings of the stack.

    Raises:
        PellucidError: a part states no facts, so its share is unknown.
    """
    while walk.layer:
        step_down(walk)
    _enter(walk)


def step_down(walk: Walk) -> None:
    """Walk back through one block.

    Raises:
        PellucidError: as `walk_down`.
    """
    share_before = walk.share + walk.explained()
    walk.layer -= 1
    block = walk.stack_pass.stack.blocks[walk.layer]
    facts = block_facts(block)
    if isinstance(facts, UnknownFacts):
        raise PellucidError(f"pellucid does not know what {facts.part} does: {facts.reason}")
    residual = facts.residual
    if isinstance(residual, UnknownFacts):
        raise PellucidError(f"the block does not say how it adds its sublayers: {residual.reason}")
    for name in _sublayers_back(facts):
        written = walk.direction
        if facts.order == "sequential":
            written = _before_sum(walk, block, residual, name)
        sublayer = Sublayer(
            trace=walk.trace,
            side=walk.side,
            layer=walk.layer,
            places=walk.places,
            written=written,
        )
        walk.take_sublayer(name, sublayer)
    if walk.trace.edits:  # an edit may have changed what the block gave
        edit_share = share_before - walk.share - walk.explained()
        name = f"{walk.layer_name}.edit"
        walk.add(
            Part(name=name, kind="constant", side=walk.side, layer=walk.layer, share=edit_share)
        )


def _sublayers_back(facts: BlockFacts) -> Iterator[str]:
    yield "feed_forward"
    if facts.cross_attention is not None:
        yield "cross_attention"
    yield "attention"


def _before_sum(walk: Walk, block: nn.Module, residual: ResidualFacts, name: str) -> Tensor:
    """The direction of what a sublayer gives; the walk's is the one of the stream before it."""
    norm_name = f"{name}_norm"
    norm = block.get_submodule(norm_name)
    match residual.norm:
        case "input":
            written = walk.direction * residual.multiplier
        case "output":
            written = _through_norm(walk, norm, norm_name, walk.direction)
        case "sandwich":
            after = f"{norm_name}.after"
            written = _through_norm(walk, block.get_submodule(after), after, walk.direction)
        case "sum":
            walk.direction = _through_norm(walk, norm, norm_name, walk.direction)
            written = walk.direction * residual.multiplier
    walk.direction = walk.direction * residual.carried
    return written


def _through_norm(walk: Walk, norm: nn.Module, name: str, direction: Tensor) -> Tensor:
    states = walk.trace.layer(walk.side, walk.layer).tensors[f"{name}.in"][0]
    walk.held_norms |= not is_identity(norm)
    pulled = pull_norm(norm, states, walk.places, direction)
    return walk.constant(f"{walk.layer_name}.{name}", pulled)


@torch.no_grad()
def _enter(walk: Walk) -> None:
    """Walk back through what comes before the first block: norm, projection, positions, rows."""
    trace, side, places = walk.trace, walk.side, walk.places
    stack_pass = walk.stack_pass
    stack, prefix = stack_pass.stack, stack_prefix(trace, side)

    def project(place: str) -> None:
        if stack.input_projection is not None and stack.projection_place == place:
            pulled = pull_linear(stack.input_projection, walk.direction)
            walk.direction = walk.constant(f"{prefix}input_projection", pulled)

    embedding = trace.model.embed(stack_pass.ids)
    mapped_first = stack.input_projection is not None and stack.projection_place == "first"
    start = stack_pass.entry["input_projection"] if mapped_first else embedding
    placed = stack.positions.embed(start, stack_pass.attention_view)
    if stack.embedding_positions is not None:
        placed = stack.embedding_positions.embed(placed, stack_pass.attention_view)
    into_norm = placed
    if stack.input_projection is not None and stack.projection_place == "before_norm":
        into_norm = stack_pass.entry["input_projection"]
    project("last")
    walk.held_norms |= not is_identity(stack.input_norm)
    pulled = pull_norm(stack.input_norm, into_norm[0], places, walk.direction)
    walk.direction = walk.constant(f"{prefix}input_norm", pulled)
    project("before_norm")
    added = (placed.double() - start.double())[0, places]
    if bool(added.any()):
        walk.take_entry(f"{prefix}positions", "positions", added)
    project("first")
    rows = trace.model.token_embedding(stack_pass.ids)[0, places].double()
    rows = rows * trace.model.embedding_scale
    segments = embedding[0, places].double() - rows
    if trace.model.segment_embedding is not None:
        walk.take_entry(f"{prefix}segment_embedding", "constant", segments)
    walk.take_entry(f"{prefix}embedding", "embedding", rows)
