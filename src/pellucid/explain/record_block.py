"""Runs one block again with the model's own modules, and records the input and output of each part.

The block gets positions and a cache that record everything and pass it on. Hooks record its parts,
and a copy of the block that shares all parts records its sums.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, assert_never, cast

import torch
from torch import Tensor, nn

from pellucid.explain.addresses.adapters import record_adapters
from pellucid.explain.addresses.block_parts import PARTS, find_part
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.experts import expert_parts
from pellucid.explain.forward_pass import StackPass
from pellucid.explain.part_facts import KnownAttention, known_attention, where_positions_act
from pellucid.model import Encoded, NoCache, NoPositions, Positions, View
from pellucid.model.attention import split_heads
from pellucid.model.cache import KeysAndValues
from pellucid.model.experts.routing import Routing
from pellucid.model.facts import (
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
)
from pellucid.model.positions import ProjectsPositions
from pellucid.model.residuals import Layer as Layer


@dataclass(slots=True)
class BlockRecord:
    """One block, opened: tensors by name, (1, time, features), and its attentions."""

    tensors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    attentions: dict[str, AttentionRecord] = field(default_factory=dict[str, AttentionRecord])
    #: which experts each token uses; the tensors of experts have a row for each token they compute
    routing: Routing | None = None


class _RecordingPositions(Positions):
    """Passes everything on to a scheme, and records queries and keys before and after rotation.

    `compared` is the queries as the scores compare them.
    """

    def __init__(self, scheme: Positions) -> None:
        super().__init__()
        self.scheme = scheme
        self.adds_values = scheme.adds_values
        self.layer_scheme = scheme
        self.plain: list[Tensor] = []
        self.rotated: list[Tensor] = []
        self.compared: Tensor | None = None

    def in_layer(self, layer: ProjectsPositions) -> Positions:
        self.layer_scheme = self.scheme.in_layer(layer)
        return self

    def rotate(self, x: Tensor, view: View) -> Tensor:
        rotated = self.scheme.rotate(x, view)
        self.plain.append(x)
        self.rotated.append(rotated)
        return rotated

    def bias(self, q: Tensor, k: Tensor, view: View, scale: float) -> Tensor | None:
        self.compared = q
        return self.layer_scheme.bias(q, k, view, scale)

    def add_values(self, mixed: Tensor, weights: Tensor, view: View) -> Tensor:
        return self.scheme.add_values(mixed, weights, view)


class _RecordingCache(NoCache):
    """Keeps the keys and values that attention reads: its own, and an encoder's."""

    def __init__(self) -> None:
        self.self_attention: KeysAndValues | None = None
        self.cross_attention: KeysAndValues | None = None

    def extend(self, keys: Tensor, values: Tensor) -> KeysAndValues:
        self.self_attention = KeysAndValues(keys, values)
        return self.self_attention

    def expand(self, read: KeysAndValues) -> KeysAndValues:
        self.self_attention = read
        return read

    def compute_once(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        self.cross_attention = make()
        return self.cross_attention


@torch.no_grad()
def open_block(stack_pass: StackPass, layer: int) -> BlockRecord:
    """The block at a depth, run again on the state that entered it."""
    return record_block(stack_pass, layer, stack_pass.states[layer], stack_pass.encoded)


def record_block(
    stack_pass: StackPass,
    layer: int,
    state: Tensor,
    encoded: Encoded | None,
    *,
    separate_inputs: bool = False,
) -> BlockRecord:
    """The block at a depth, run on a state, and the input and output of every part.

    With `separate_inputs`, every part reads a copy of its input: the gradient of the copy is what
    the part passes back, without what bypasses the part.
    """
    block = stack_pass.stack.blocks[layer]
    recording = BlockRecord()
    positions, cache = _RecordingPositions(stack_pass.positions(layer)), _RecordingCache()
    with ExitStack() as hooks:
        for name in (*PARTS, *expert_parts(block)):
            part = find_part(block, name)
            if part is not None:
                if separate_inputs:
                    hooks.enter_context(part.register_forward_pre_hook(_copy_input))
                _record_part(hooks, part, name, recording.tensors)
        record_adapters(hooks, block, recording.tensors)
        _record_routing(hooks, block, recording)
        part_tensors = _record_attention_parts(hooks, block)
        output = _with_recorded_sums(block, recording)(
            state, positions, stack_pass.attention_view, cache, encoded
        )
    recording.tensors["made"] = output
    notes = _Notes(positions, cache, part_tensors, stack_pass.attention_view)
    _record_attentions(recording, block, notes)
    return recording


def _copy_input(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return inputs[0].view_as(inputs[0]), *inputs[1:]


def _record_part(hooks: ExitStack, part: nn.Module, name: str, tensors: dict[str, Tensor]) -> None:
    def record(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensors[f"{name}.in"], tensors[name] = inputs[0], output

    hooks.enter_context(part.register_forward_hook(record))


def _record_routing(hooks: ExitStack, block: nn.Module, recording: BlockRecord) -> None:
    rule = find_part(block, "feed_forward.rule")
    if rule is None or not expert_parts(block):
        return

    def record(_: nn.Module, inputs: tuple[Any, ...], routing: Routing) -> None:
        recording.routing = Routing(*(tensor.detach() for tensor in routing))
        recording.tensors["feed_forward.weights"] = routing.weights

    hooks.enter_context(rule.register_forward_hook(record))


def _record_attention_parts(hooks: ExitStack, block: nn.Module) -> dict[str, Tensor]:
    """Record the outputs of the parts of both attentions, and the input of their last product."""
    tensors: dict[str, Tensor] = {}
    for kind in ("attention", "cross_attention"):
        layer = find_part(block, kind)
        if known_attention(layer) is None:
            continue
        for name in ("query", "value", "output", "output_gate", "memory_norm", "mixing"):
            part = find_part(cast("nn.Module", layer), name)
            if part is not None:
                _record_part(hooks, part, f"{kind}.{name}", tensors)
    return tensors


def _with_recorded_sums(block: nn.Module, recording: BlockRecord) -> nn.Module:
    """A copy that shares all parts, and records the stream after each of its sums."""
    rule = cast("Any", block).residual
    names = iter(("after_attention", "after_cross_attention", "after_feed_forward"))
    if cast("Any", block).cross_attention is None:
        names = iter(("after_attention", "after_feed_forward"))

    def record_sum(x: Tensor, norm: Any, layer: Layer) -> Tensor:
        stream = rule(x, norm, layer)
        recording.tensors[next(names)] = stream
        return stream

    twin = copy.copy(block)
    twin.__dict__["residual"] = record_sum
    return twin


@dataclass(frozen=True, slots=True)
class _Notes:
    positions: _RecordingPositions
    cache: _RecordingCache
    part_tensors: dict[str, Tensor]
    view: View


def _record_attentions(recording: BlockRecord, block: nn.Module, notes: _Notes) -> None:
    attention, crossed = find_part(block, "attention"), find_part(block, "cross_attention")
    facts, cross_facts = known_attention(attention), known_attention(crossed)
    if attention is not None and facts is not None:
        recording.attentions[""] = _record_self_attention(
            attention, facts, notes, recording.tensors
        )
    if crossed is not None and cross_facts is not None:
        keys, values = cast("KeysAndValues", notes.cache.cross_attention)
        recording.attentions["cross"] = AttentionRecord(
            layer=crossed,
            facts=cross_facts,
            q=split_heads(notes.part_tensors["cross_attention.query"], cross_facts.n_heads),
            k=keys,
            v=values,
            outputs=split_heads(
                notes.part_tensors["cross_attention.output.in"], cross_facts.n_heads
            ),
            positions=NoPositions(),
            view=View(start=0, causal=False),
            joined=notes.part_tensors["cross_attention.output.in"],
        )


def _record_self_attention(
    layer: nn.Module, facts: KnownAttention, notes: _Notes, recording_parts: dict[str, Tensor]
) -> AttentionRecord:
    q, k = notes.positions.rotated[:2]
    is_latent = isinstance(facts, LatentAttentionFacts)
    acts = where_positions_act(notes.positions.scheme)
    turns = acts == "queries and keys" and not is_latent
    part_tensors, keys_values = notes.part_tensors, notes.cache.self_attention
    attention = AttentionRecord(
        layer=layer,
        facts=facts,
        q=q,
        k=k,
        v=split_heads(part_tensors["attention.value"], facts.n_heads)
        if keys_values is None
        else keys_values.values,
        outputs=split_heads(part_tensors["attention.output.in"], facts.n_heads),
        positions=notes.positions.layer_scheme,
        view=notes.view,
        joined=part_tensors["attention.output.in"],
    )
    if turns:
        attention.q_plain, attention.k_plain = notes.positions.plain[:2]
    match facts:
        case SoftmaxAttentionFacts():
            if turns and facts.norms_after_rotation:
                attention.q_turned, attention.k_turned = q, k
            attention.q = cast("Tensor", notes.positions.compared)
            attention.k = cast("KeysAndValues", keys_values).keys
            if facts.output_gate is not None:
                gates = torch.sigmoid(part_tensors[f"attention.{facts.output_gate}"])
                per_head = split_heads(gates, facts.n_heads)
                attention.output_gate = per_head.expand_as(attention.outputs)
        case LatentAttentionFacts():
            attention.q = cast("Tensor", notes.positions.compared)
            attention.k = cast("KeysAndValues", keys_values).keys
        case LinearAttentionFacts():
            if not turns:
                attention.q_plain, attention.k_plain = q, k
        case NeuralMemoryFacts():
            attention.memory = part_tensors["attention.memory_norm"]
            attention.memory_read = part_tensors["attention.memory_norm.in"]
            attention.memory_parts = recording_parts
            attention.gate = torch.sigmoid(part_tensors["attention.mixing"])
        case _:
            assert_never(facts)
    return attention
