"""Attention by head and by token that is read; a feed-forward by expert and by unit.

Each is read along a direction u of the sublayer's output, with a row for each token. Then
u · W_o out is the sum of u · W_o[head] out[head], and out[head] a sum of weights times values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor, nn

from pellucid.explain import attention_heads
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.experts import dense_facts, experts_facts
from pellucid.explain.forward_pass import HeadPlace, Side
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.held import pull_linear, read_matrix
from pellucid.explain.why.types import (
    HeadReading,
    Part,
    PartKind,
    SourceShare,
    UnitShare,
    head_name,
)
from pellucid.model.attention import split_heads
from pellucid.model.facts import ExpertsFacts
from pellucid.typed import to_list

#: How many single readings of one head are kept, the largest.
_READINGS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Sublayer:
    """One sublayer, the tokens that are read, and (tokens, d_model), the direction u of each."""

    trace: Trace
    side: Side
    layer: int
    places: list[int]
    written: Tensor

    @property
    def layer_name(self) -> str:
        """Such as L2."""
        return f"{stack_letter(self.side)}{self.layer}"

    @property
    def block(self) -> nn.Module:
        """The block that it belongs to."""
        return self.trace.stack_pass(self.side).stack.blocks[self.layer]

    def part(self, name: str, kind: PartKind, share: float | Tensor) -> Part:
        """A part of this sublayer."""
        return Part(
            name=f"{self.layer_name}.{name}",
            kind=kind,
            side=self.side,
            layer=self.layer,
            share=float(share),
            direction=None if kind == "constant" else self.written,
        )

    def read(self, address: str) -> float:
        """u · the numbers at an address of the layer."""
        numbers = self.trace[f"{self.layer_name}.{address}"][self.places].double()
        return float((self.written * numbers).sum())


# attention


def attention_of(sublayer: Sublayer, name: str) -> AttentionRecord | None:
    """The record of "attention" or "cross_attention"; None if pellucid cannot see its heads."""
    attentions = sublayer.trace.layer(sublayer.side, sublayer.layer).attentions
    return attentions.get("cross" if name == "cross_attention" else "")


def output_directions(attention: AttentionRecord, written: Tensor) -> Tensor:
    """(heads, tokens, d_value): u as it reads each head's output, through W_o."""
    pulled = pull_linear(attention.layer.get_submodule(attention.facts.output), written)
    return split_heads(pulled.direction[None], attention.n_heads)[0]


def read_attention(
    sublayer: Sublayer, name: str, attention: AttentionRecord | None
) -> tuple[list[Part], list[HeadReading]]:
    """The parts of attention, and what each head took from each token.

    Args:
        sublayer: where, and the direction.
        name: "attention" or "cross_attention".
        attention: its record; None if pellucid cannot see its heads.
    """
    if attention is None:
        return [sublayer.part(name, "layer", sublayer.read(name))], []
    directions = output_directions(attention, sublayer.written)
    cross, suffix = name == "cross_attention", ".cross" if name == "cross_attention" else ""
    parts: list[Part] = []
    readings: list[HeadReading] = []
    for head in range(attention.n_heads):
        place = HeadPlace(sublayer.side, sublayer.layer, head, cross)
        outputs = attention.outputs[0, head, sublayer.places].double()
        share = float((directions[head] * outputs).sum())
        reading = _read_head(sublayer, attention, place, directions[head])
        readings.append(reading)
        no_source = share - float(reading.by_key.sum())
        part = sublayer.part(f"H{head}{suffix}", "head", share)
        parts.append(
            replace(part, head=head, cross=cross, no_source=no_source, direction=directions[head])
        )
    _, bias = read_matrix(attention.layer.get_submodule(attention.facts.output))
    if bias is not None:
        share = (sublayer.written @ bias).sum()
        parts.append(sublayer.part(f"{name}.output.bias", "constant", share))
    return parts, readings


def held_weights(trace: Trace, attention: AttentionRecord, place: HeadPlace) -> Tensor:
    """(queries, keys): the weights of a head times what scales its output, in float64."""
    weights = attention_heads.weights(attention, place.head).double()
    if attention.gate is not None:
        weights = weights * (1 - attention.gate[0, place.head].double().view(-1, 1))
    scale = trace.scales.get(place, 1.0)
    if scale == "mean":
        return weights.mean(0, keepdim=True).expand_as(weights)
    return weights * scale


def gated(attention: AttentionRecord, head: int, places: list[int], direction: Tensor) -> Tensor:
    """The direction before the gate of a head's output; a memory's gate is in the weights."""
    if attention.output_gate is None:
        return direction
    return direction * attention.output_gate[0, head, places].double()


def _read_head(
    sublayer: Sublayer, attention: AttentionRecord, place: HeadPlace, direction: Tensor
) -> HeadReading:
    weights = held_weights(sublayer.trace, attention, place)[sublayer.places]
    head = place.head
    values = attention.v[0, head * attention.v.shape[1] // attention.n_heads].double()
    shares = weights * (gated(attention, head, sublayer.places, direction) @ values.mT)
    largest = shares.flatten().abs().topk(min(_READINGS, shares.numel())).indices
    indices: list[int] = to_list(largest)
    n_keys = shares.shape[1]
    return HeadReading(
        place,
        shares.sum(0),
        tuple(
            SourceShare(
                name=head_name(place),
                query=sublayer.places[index // n_keys],
                key=index % n_keys,
                weight=float(weights.flatten()[index]),
                share=float(shares.flatten()[index]),
            )
            for index in indices
        ),
    )


# feed-forward


def read_feed_forward(sublayer: Sublayer) -> tuple[list[Part], list[UnitShare]]:
    """The feed-forward as a whole, or by expert; and its units with their shares."""
    facts = experts_facts(sublayer.block)
    if facts is not None:
        return _read_experts(sublayer, facts)
    whole_layer = sublayer.part("feed_forward", "feed-forward", sublayer.read("feed_forward"))
    unit_factors = sublayer.written.new_ones(len(sublayer.places))
    return [whole_layer], list(_read_units(sublayer, "feed_forward", unit_factors))


def _read_experts(sublayer: Sublayer, facts: ExpertsFacts) -> tuple[list[Part], list[UnitShare]]:
    routing = sublayer.trace.layer(sublayer.side, sublayer.layer).routing
    assert routing is not None
    of_all = routing.weights_of_all[sublayer.places].double()
    parts: list[Part] = []
    units: list[UnitShare] = []
    for expert in range(facts.n_experts):
        if not bool(of_all[:, expert].any()):
            continue
        holder = f"feed_forward.{facts.experts}.{expert}"
        parts.append(sublayer.part(holder, "expert", sublayer.read(f"{holder}.written")))
        used = of_all[:, expert]
        factors = used if facts.weights_on == "output" else (used != 0).double()
        units += _read_units(sublayer, holder, factors)
    if facts.shared is not None:
        address = f"{sublayer.layer_name}.feed_forward.{facts.shared}"
        factors = sublayer.written.new_ones(len(sublayer.places))
        if facts.shared_gate is not None:
            logits = sublayer.trace[f"{sublayer.layer_name}.feed_forward.{facts.shared_gate}"]
            factors = logits[sublayer.places].double().sigmoid().flatten()
        outputs = sublayer.trace[address][sublayer.places].double() * factors[:, None]
        share = (sublayer.written * outputs).sum()
        parts.append(sublayer.part(f"feed_forward.{facts.shared}", "expert", share))
        units += _read_units(sublayer, f"feed_forward.{facts.shared}", factors)
    return parts, units


def _read_units(sublayer: Sublayer, holder: str, factors: Tensor) -> Iterator[UnitShare]:
    """The units of one feed-forward: value times u · its column of W, times an expert's weight."""
    facts = dense_facts(sublayer.block, holder)
    if facts is None:
        return
    down = sublayer.block.get_submodule(f"{holder}.{facts.down}")
    columns = pull_linear(down, sublayer.written * factors[:, None]).direction
    values = sublayer.trace[f"{sublayer.layer_name}.{holder}.units"][sublayer.places].double()
    shares = columns * values
    largest = shares.flatten().abs().topk(min(_READINGS, shares.numel())).indices
    indices: list[int] = to_list(largest)
    for index in indices:
        row, unit = divmod(index, shares.shape[1])
        yield UnitShare(
            name=f"{sublayer.layer_name}.{holder}.units[{sublayer.places[row]}, {unit}]",
            token=sublayer.places[row],
            value=float(values[row, unit]),
            share=float(shares[row, unit]),
        )
