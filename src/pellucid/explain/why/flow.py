"""Paths: which token's information came by which heads.

With every attention weight and every scale held, what a head reads from a token is linear in the
token's stream. So the walk of `walk` continues through the values of the heads, at all tokens at
once: u of a stream is W_o, weight and W_v transposed, times u of what the head wrote. It ends at
the embeddings of the tokens, and at each feed-forward, which is not linear. The leaves add up to
the difference.

Source:
    Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", "Two-Layer
    Attention-Only Transformers": virtual heads; Ferrando and Voita 2024, "Information Flow Routes".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.forward_pass import HeadPlace, Side
from pellucid.explain.part_facts import entry_norm
from pellucid.explain.why.held import pull_linear, pull_norm
from pellucid.explain.why.path_types import Edge, Leaf
from pellucid.explain.why.sublayers import (
    Sublayer,
    attention_of,
    gated,
    held_weights,
    output_directions,
)
from pellucid.explain.why.types import Part, PartKind, head_name
from pellucid.explain.why.walk import Walk
from pellucid.model.attention import join_heads
from pellucid.model.facts import (
    BlockFacts,
    LatentAttentionFacts,
    SoftmaxAttentionFacts,
    block_facts,
)
from pellucid.typed import to_list


@dataclass(slots=True)
class FlowWalk(Walk):
    """A walk at all tokens, which continues through the values that heads read."""

    smallest: float = 0.0
    edges: list[Edge] = field(default_factory=list[Edge])
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    #: before each layer, how much of the difference passes each token's stream
    passing: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    #: the direction of the encoder's states, after its final norm
    encoded: Tensor | None = None
    leaf_shares: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    def explained(self) -> float:
        """The sum of the leaves and constants above."""
        parts = sum(part.share for part in self.parts)
        return parts + sum(float(shares.sum()) for shares in self.leaf_shares.values())

    def record(self) -> None:
        """Keep how much passes each token before this layer."""
        states = self.stack_pass.states[self.layer][0].double()
        self.passing[self.layer] = (self.direction * states).sum(-1)

    def take_sublayer(self, name: str, sublayer: Sublayer) -> None:
        """Keep a feed-forward as a leaf; follow the values of attention."""
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
        self.leaf_shares[f"{layer}.{name}"] = shares
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
            clipped_share = (direction * attention.v[0].double())[bounded].sum()
            self._add_constant(f"{name}.clip", float(clipped_share))
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
