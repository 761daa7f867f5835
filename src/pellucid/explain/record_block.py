"""One block run again, with everything in it heard: by the model's own modules.

Comes in: a block, and what it was given. Goes out: what each of its parts was given and made. It
computes nothing of a model itself.

A block is handed its positions and its cache; so it is handed ones that pass everything on and note
it. Parts are heard by hooks, and the residual rule by a copy of the block that shares all parts.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.explain.forward_pass import StackPass
from pellucid.model import (
    CrossAttention,
    Encoded,
    LinearAttention,
    MultiHeadAttention,
    NeuralMemory,
    NoCache,
    NoPositions,
    Positions,
    View,
)
from pellucid.model.attention import split_heads
from pellucid.model.cache import KeysAndValues
from pellucid.model.residuals import Layer as Written
from pellucid.model.scores import Scoring

#: What is heard of a block's parts: the output under the part's name, the input under NAME.in.
PARTS = (
    "attention_norm",
    "attention_norm.before",
    "attention_norm.after",
    "attention",
    "cross_attention_norm",
    "cross_attention_norm.before",
    "cross_attention_norm.after",
    "cross_attention",
    "feed_forward_norm",
    "feed_forward_norm.before",
    "feed_forward_norm.after",
    "feed_forward",
    "feed_forward.up",
    "feed_forward.gate",
    "feed_forward.down",
    "attention.query",
    "attention.key",
    "attention.value",
    "cross_attention.query",
)
#: Of these the output alone: what they are given is their attention's.
LINEAR = ("attention.query", "attention.key", "attention.value", "cross_attention.query")
#: Attention whose heads are known.
KNOWN = (MultiHeadAttention, CrossAttention, LinearAttention, NeuralMemory)


@dataclass(slots=True)
class AttentionRecord:
    """What one attention did, by head: (1, heads, time, features)."""

    layer: nn.Module
    q: Tensor
    k: Tensor
    v: Tensor
    #: what the heads found, before it is projected back
    out: Tensor
    positions: Positions
    view: View
    #: the same beside each other, as that product was given it: (1, time, heads * features)
    joined: Tensor
    #: before positions turned them, where they do
    q_plain: Tensor | None = None
    k_plain: Tensor | None = None
    #: of a memory: what was read in it, and the share it gets
    memory: Tensor | None = None
    gate: Tensor | None = None

    @property
    def n_heads(self) -> int:
        """Heads of queries; keys and values may have fewer."""
        return self.q.shape[1]

    @property
    def scoring(self) -> Scoring | None:
        """How scores are made; None where there are none."""
        layer = self.layer
        if isinstance(layer, MultiHeadAttention | CrossAttention | NeuralMemory):
            return layer.scoring()
        return None

    @property
    def window(self) -> int | None:
        """How many keys a query sees at most."""
        return getattr(self.layer, "window", None)


@dataclass(slots=True)
class BlockRecord:
    """One block, opened: tensors by name, (1, time, features), and its attentions."""

    tensors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    looks: dict[str, AttentionRecord] = field(default_factory=dict[str, AttentionRecord])


class _HeardPositions(Positions):
    """Passes everything on to a scheme, and notes what was turned."""

    def __init__(self, scheme: Positions) -> None:
        super().__init__()
        self.scheme = scheme
        self.adds_values = scheme.adds_values
        self.plain: list[Tensor] = []
        self.turned: list[Tensor] = []

    def rotate(self, x: Tensor, view: View) -> Tensor:
        turned = self.scheme.rotate(x, view)
        self.plain.append(x)
        self.turned.append(turned)
        return turned

    def bias(self, q: Tensor, view: View, scale: float) -> Tensor | None:
        return self.scheme.bias(q, view, scale)

    def add_values(self, mixed: Tensor, weights: Tensor, view: View) -> Tensor:
        return self.scheme.add_values(mixed, weights, view)


class _HeardCache(NoCache):
    """Keeps what attention reads: its own keys and values, and an encoder's."""

    def __init__(self) -> None:
        self.own: KeysAndValues | None = None
        self.encoders: KeysAndValues | None = None

    def extend(self, keys: Tensor, values: Tensor) -> KeysAndValues:
        self.own = KeysAndValues(keys, values)
        return self.own

    def once(self, make: Callable[[], KeysAndValues]) -> KeysAndValues:
        self.encoders = make()
        return self.encoders


@torch.no_grad()
def opened(passed: StackPass, layer: int) -> BlockRecord:
    """The block at a depth, run again on the state that entered it; heads as `scaled` has them."""
    return heard(passed, layer, passed.states[layer], passed.encoded)


def heard(
    passed: StackPass, layer: int, state: Tensor, encoded: Encoded | None, *, apart: bool = False
) -> BlockRecord:
    """The block at a depth, run on a state, with everything in it heard.

    With `apart`, what a part is given is a tensor of its own, equal to what it was made of: the
    gradient that comes back to it is what the part passes back, and not what bypasses it.
    """
    block = passed.stack.blocks[layer]
    recording = BlockRecord()
    positions, cache = _HeardPositions(passed.positions), _HeardCache()
    with ExitStack() as hooks:
        for name in PARTS:
            part = _part(block, name)
            if part is not None:
                if apart:
                    hooks.enter_context(part.register_forward_pre_hook(_set_apart))
                _hear(hooks, part, name, recording.tensors)
        within = _within(hooks, block)
        output = _with_heard_sums(block, recording)(state, positions, passed.seen, cache, encoded)
    recording.tensors["made"] = output
    _keep_looks(recording, block, passed, _Notes(positions, cache, within))
    return recording


def _set_apart(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return inputs[0].view_as(inputs[0]), *inputs[1:]


def _part(block: nn.Module, name: str) -> nn.Module | None:
    part: Any = block
    for step in name.split("."):
        part = getattr(part, step, None)
    return part if isinstance(part, nn.Module) else None


def _hear(hooks: ExitStack, part: nn.Module, name: str, into: dict[str, Tensor]) -> None:
    def record(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        into[f"{name}.in"], into[name] = inputs[0], output

    hooks.enter_context(part.register_forward_hook(record))


def _within(hooks: ExitStack, block: nn.Module) -> dict[str, Tensor]:
    """What parts of the attentions made, and what their last product was given."""
    noted: dict[str, Tensor] = {}
    for kind in ("attention", "cross_attention"):
        layer = _part(block, kind)
        if not isinstance(layer, KNOWN):
            continue
        for name in ("query", "value", "output", "memory_norm", "mixing"):
            part = _part(layer, name)
            if part is not None:
                _hear(hooks, part, f"{kind}.{name}", noted)
    return noted


def _with_heard_sums(block: nn.Module, recording: BlockRecord) -> nn.Module:
    """A copy that shares all parts, and notes the stream after each of its sums."""
    rule = cast("Any", block).residual
    names = iter(("after_attention", "after_cross_attention", "after_feed_forward"))
    if cast("Any", block).cross_attention is None:
        names = iter(("after_attention", "after_feed_forward"))

    def listened(x: Tensor, norm: Any, layer: Written) -> Tensor:
        stream = rule(x, norm, layer)
        recording.tensors[next(names)] = stream
        return stream

    twin = copy.copy(block)
    twin.__dict__["residual"] = listened
    return twin


@dataclass(frozen=True, slots=True)
class _Notes:
    positions: _HeardPositions
    cache: _HeardCache
    within: dict[str, Tensor]


def _keep_looks(recording: BlockRecord, block: nn.Module, passed: StackPass, notes: _Notes) -> None:
    attention, crossed = _part(block, "attention"), _part(block, "cross_attention")
    if isinstance(attention, MultiHeadAttention | LinearAttention | NeuralMemory):
        recording.looks[""] = _build_self_look(attention, passed, notes)
    if isinstance(crossed, CrossAttention):
        keys, values = cast("KeysAndValues", notes.cache.encoders)
        recording.looks["cross"] = AttentionRecord(
            layer=crossed,
            q=split_heads(notes.within["cross_attention.query"], crossed.n_heads),
            k=keys,
            v=values,
            out=split_heads(notes.within["cross_attention.output.in"], crossed.n_heads),
            positions=NoPositions(),
            view=View(start=0, causal=False),
            joined=notes.within["cross_attention.output.in"],
        )


def _build_self_look(
    layer: MultiHeadAttention | LinearAttention | NeuralMemory, passed: StackPass, notes: _Notes
) -> AttentionRecord:
    q, k = notes.positions.turned[:2]
    turns = type(passed.positions).rotate is not Positions.rotate
    within, keys_values = notes.within, notes.cache.own
    look = AttentionRecord(
        layer=layer,
        q=q,
        k=k,
        v=split_heads(within["attention.value"], layer.n_heads)
        if keys_values is None
        else keys_values.values,
        out=split_heads(within["attention.output.in"], layer.n_heads),
        positions=passed.positions,
        view=passed.seen,
        joined=within["attention.output.in"],
    )
    if turns:
        look.q_plain, look.k_plain = notes.positions.plain[:2]
    elif isinstance(layer, LinearAttention):
        look.q_plain, look.k_plain = q, k
    if isinstance(layer, NeuralMemory):
        look.memory = within["attention.memory_norm"]
        look.gate = torch.sigmoid(within["attention.mixing"])
    return look
