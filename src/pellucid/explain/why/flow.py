"""Paths: which token's information came by which heads.

With every attention weight and every scale held, what a head reads from a token is linear in the
token's stream. So the walk of `walk` goes on through the values of the heads, at all tokens at
once: u of a stream is W_o, weight and W_v transposed, times u of what the head wrote. It ends at
the embeddings of the tokens, and at each feed-forward, which is not linear. The leaves add up to
the difference.

Source:
    Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", "Two-Layer
    Attention-Only Transformers": virtual heads; Ferrando and Voita 2024, "Information Flow Routes".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.forward_pass import HeadPlace, Side
from pellucid.explain.part_facts import entry_norm
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.ending import find_ending
from pellucid.explain.why.held import pull_linear, pull_norm
from pellucid.explain.why.path_types import Edge, Leaf, Node, Paths
from pellucid.explain.why.sublayers import (
    Sublayer,
    attention_of,
    gated,
    head_name,
    held_weights,
    output_directions,
)
from pellucid.explain.why.types import Part, PartKind
from pellucid.explain.why.walk import Walk, walk_down
from pellucid.model.attention import join_heads
from pellucid.model.facts import (
    BlockFacts,
    LatentAttentionFacts,
    SoftmaxAttentionFacts,
    block_facts,
)
from pellucid.typed import to_list

if TYPE_CHECKING:
    from pellucid.explain.why.answer import Why

#: Edges and leaves below this share of the difference are left out, and the largest are kept.
SMALLEST = 0.02
_MOST = 60


@dataclass(slots=True)
class FlowWalk(Walk):
    """A walk at all tokens, which goes on through the values that heads read."""

    smallest: float = 0.0
    edges: list[Edge] = field(default_factory=list[Edge])
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    #: before each layer, how much of the difference passes each token's stream
    passing: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    #: the direction of the encoder's states, after its final norm
    encoded: Tensor | None = None
    entered: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    def explained(self) -> float:
        """The sum of the leaves and constants above."""
        parts = sum(part.share for part in self.parts)
        return parts + sum(float(shares.sum()) for shares in self.entered.values())

    def record(self) -> None:
        """Keep how much passes each token before this layer."""
        states = self.stack_pass.states[self.layer][0].double()
        self.passing[self.layer] = (self.direction * states).sum(-1)

    def take_sublayer(self, name: str, sublayer: Sublayer) -> None:
        """Keep a feed-forward as a leaf; go on through the values of attention."""
        attention = None if name == "feed_forward" else attention_of(sublayer, name)
        if attention is None:
            outputs = self.trace[f"{self.layer_name}.{name}"].double()
            kind = "feed-forward" if name == "feed_forward" else "layer"
            self._add_leaves(name, kind, (sublayer.written * outputs).sum(-1), self.layer)
        else:
            self._follow(name, sublayer, attention)
        if name == "attention":
            self.record()

    def take_entry(self, name: str, kind: PartKind, vectors: Tensor) -> None:
        """Keep what enters the first block as leaves."""
        self._add_leaves(name, kind, (self.direction * vectors).sum(-1), None)

    def _add_leaves(self, name: str, kind: PartKind, shares: Tensor, layer: int | None) -> None:
        self.entered[f"{layer}.{name}"] = shares
        full_name = name if layer is None else f"{stack_letter(self.side)}{layer}.{name}"
        self.leaves += [
            Leaf(
                name=full_name,
                kind=kind,
                side=self.side,
                layer=layer,
                token=token,
                share=share,
            )
            for token, share in enumerate(to_list(shares))
            if abs(share) >= self.smallest
        ]

    def _follow(self, name: str, sublayer: Sublayer, attention: AttentionRecord) -> None:
        directions = output_directions(attention, sublayer.written)
        n_groups = attention.v.shape[1]
        values = attention.v[0].double()
        into_values = torch.zeros_like(values)
        wrote = (directions * attention.outputs[0].double()).sum()
        read = 0.0
        for head in range(attention.n_heads):
            place = HeadPlace(self.side, self.layer, head, name == "cross_attention")
            weights = held_weights(self.trace, attention, place)
            direction = gated(attention, head, self.places, directions[head])
            group = head * n_groups // attention.n_heads
            into_values[group] += weights.mT @ direction
            shares = weights * (direction @ values[group].mT)
            read += float(shares.sum())
            self._add_edges(place, weights, shares)
        self._add_constant(f"{name}.no_source", float(wrote) - read)
        output = attention.layer.get_submodule(attention.facts.output)
        self._add_constant(f"{name}.output.bias", pull_linear(output, sublayer.written).constant)
        into_layer = self.through_values(name, attention, into_values)
        if name == "cross_attention":
            self.encoded = into_layer if self.encoded is None else self.encoded + into_layer
            return
        self.direction = self.direction + self.through_entry_norm(name, into_layer)

    def through_values(self, name: str, attention: AttentionRecord, direction: Tensor) -> Tensor:
        """(keys, features): the direction of what the value projection reads."""
        facts, layer = attention.facts, attention.layer
        if isinstance(facts, SoftmaxAttentionFacts) and facts.clip is not None:
            bounded = attention.v[0].abs() >= facts.clip
            held = (direction * attention.v[0].double())[bounded].sum()
            self._add_constant(f"{name}.clip", float(held))
            direction = direction.masked_fill(bounded, 0.0)
        value = layer.get_submodule(facts.value)
        pulled = pull_linear(value, join_heads(direction[None])[0])
        self._add_constant(f"{name}.value.bias", pulled.constant)
        if not isinstance(facts, LatentAttentionFacts):
            return pulled.direction
        norm = layer.get_submodule(facts.latent_norm)
        latents = self.trace[f"{self.layer_name}.{name}.{facts.latent_norm}.in"]
        pulled = pull_norm(norm, latents, self.places, pulled.direction)
        self._add_constant(f"{name}.{facts.latent_norm}", pulled.constant)
        pulled = pull_linear(layer.get_submodule(facts.latent), pulled.direction)
        self._add_constant(f"{name}.{facts.latent}.bias", pulled.constant)
        return pulled.direction

    def through_entry_norm(self, name: str, direction: Tensor) -> Tensor:
        """The direction of the stream that attention reads, through its norm if it has one."""
        block = self.stack_pass.stack.blocks[self.layer]
        facts = cast("BlockFacts", block_facts(block))
        placement = cast("Any", facts.residual).norm
        if placement in ("output", "sum"):
            return direction
        norm_name = entry_norm(block, f"{name}_norm")
        states = self.trace.layer(self.side, self.layer).tensors[f"{norm_name}.in"][0]
        pulled = pull_norm(block.get_submodule(norm_name), states, self.places, direction)
        return self.constant(f"{self.layer_name}.{norm_name}", pulled)

    def _add_constant(self, name: str, share: float) -> None:
        part_name = f"{self.layer_name}.{name}"
        self.add(
            Part(name=part_name, kind="constant", side=self.side, layer=self.layer, share=share)
        )

    def _add_edges(self, place: HeadPlace, weights: Tensor, shares: Tensor) -> None:
        letter = stack_letter(self.side)
        key_side: Side = "encoder" if place.cross else self.side
        key_layer = self.trace.n_layers("encoder") if place.cross else self.layer
        rows, columns = (shares.abs() >= self.smallest).nonzero(as_tuple=True)
        for query, key in zip(to_list(rows), to_list(columns), strict=True):
            self.edges.append(
                Edge(
                    head=head_name(place),
                    side=self.side,
                    layer=self.layer,
                    key_side=key_side,
                    key_layer=key_layer,
                    source=f"{stack_letter(key_side)}{key_layer}[{key}]",
                    target=f"{letter}{self.layer + 1}[{query}]",
                    key=key,
                    query=query,
                    weight=float(weights[query, key]),
                    share=float(shares[query, key]),
                )
            )


def read_back(
    trace: Trace, place: HeadPlace, attention: AttentionRecord, into_values: Tensor
) -> tuple[Tensor, float]:
    """The direction of the streams that an attention reads, and what its biases add.

    Args:
        trace: the sentence.
        place: a head of the attention.
        attention: its record.
        into_values: (groups, keys, d_value), the direction of the values.

    Returns (keys, d_model), of the stream before the layer, or of the encoder's last.
    """
    name = "cross_attention" if place.cross else "attention"
    n_keys = into_values.shape[1]
    walk = FlowWalk(
        trace=trace,
        side=place.side,
        layer=place.layer,
        places=list(range(n_keys)),
        direction=into_values.new_zeros(n_keys, 1),
    )
    direction = walk.through_values(name, attention, into_values)
    if place.cross:
        stack_pass = trace.stack_pass("encoder")
        norm, states = stack_pass.stack.final_norm, stack_pass.states[-1][0]
        pulled = pull_norm(norm, states, walk.places, direction)
        direction = walk.constant("final_norm", pulled)
    else:
        direction = walk.through_entry_norm(name, direction)
    return direction, sum(part.share for part in walk.parts)


@torch.no_grad()
def find_paths(why: Why) -> Paths:
    """The ways from the tokens to the difference.

    Args:
        why: the answer whose difference is followed.

    Raises:
        PellucidError: a part states no facts.
    """
    trace, ending = why.trace, find_ending(why.trace, why.rivals)
    n_layers, time = trace.n_layers(trace.side), len(trace.ids)
    direction = ending.direction.new_zeros(time, ending.direction.shape[-1])
    direction[ending.places] = ending.direction
    smallest = SMALLEST * abs(why.rivals.difference)
    walks = [_walk(trace, trace.side, direction, smallest)]
    constants = sum(part.share for part in ending.constants)
    if walks[0].encoded is not None:
        encoder = trace.stack_pass("encoder")
        places = list(range(len(trace.pieces("encoder"))))
        pulled = pull_norm(
            encoder.stack.final_norm, encoder.states[-1][0], places, walks[0].encoded
        )
        constants += pulled.constant
        walks.append(_walk(trace, "encoder", pulled.direction, smallest))
    letter = stack_letter(trace.side)
    return _join(trace, walks, constants, tuple(f"{letter}{n_layers}[{p}]" for p in ending.places))


def _walk(trace: Trace, side: Side, direction: Tensor, smallest: float) -> FlowWalk:
    walk = FlowWalk(
        trace=trace,
        side=side,
        layer=trace.n_layers(side),
        places=list(range(len(direction))),
        direction=direction,
        smallest=smallest,
    )
    walk.record()
    walk_down(walk)
    return walk


def _join(trace: Trace, walks: list[FlowWalk], constants: float, end: tuple[str, ...]) -> Paths:
    edges = sorted(
        (edge for walk in walks for edge in walk.edges), key=lambda edge: -abs(edge.share)
    )[:_MOST]
    leaves = sorted(
        (leaf for walk in walks for leaf in walk.leaves), key=lambda leaf: -abs(leaf.share)
    )[:_MOST]
    used = {name for edge in edges for name in (edge.source, edge.target)} | set(end)
    nodes = [
        Node(
            side=walk.side,
            layer=layer,
            token=token,
            piece=trace.pieces(walk.side)[token],
            share=float(shares[token]),
        )
        for walk in walks
        for layer, shares in walk.passing.items()
        for token in range(len(shares))
    ]
    constants += sum(part.share for walk in walks for part in walk.parts)
    return Paths(
        end=end,
        nodes=tuple(node for node in nodes if node.name in used),
        edges=tuple(edges),
        leaves=tuple(leaves),
        tokens={walk.side: _sum_leaves(walk, entry=True) for walk in walks},
        feed_forwards={walk.side: _sum_leaves(walk, entry=False) for walk in walks},
        constants=constants,
    )


def _sum_leaves(walk: FlowWalk, *, entry: bool) -> tuple[float, ...]:
    rows = [shares for name, shares in walk.entered.items() if name.startswith("None.") == entry]
    return tuple(to_list(torch.stack(rows).sum(0))) if rows else ()
