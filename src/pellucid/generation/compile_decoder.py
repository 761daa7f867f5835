"""A decoder written down as a tape, for code that has no Python in it.

Comes in: a model. Goes out: its tape, or the reason why there is none. It does not know how a tape
is run.

Nothing is guessed: what hooks, parametrisations or classes of a user's own would do, only the model
itself does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.generation.decode_program import Tape, activation, unwritable
from pellucid.model import (
    MLP,
    ALiBi,
    Block,
    BucketedBias,
    GatedMLP,
    HeadTransform,
    Learned,
    MultiHeadAttention,
    NoPositions,
    ParallelBlock,
    Positions,
    Rotary,
    Sandwich,
    Sinusoidal,
    Stack,
    Transformer,
    deep_norm,
    look,
    no_residual,
    output_norm,
    post_norm,
    pre_norm,
    sandwich_norm,
)
from pellucid.native import Attention, Operation
from pellucid.typed import named_modules

#: What a layer writes: from one place to another, perhaps with something added.
Layer = Callable[..., None]


def lower(model: Transformer) -> Tape:
    """The tape of a decoder.

    Raises:
        Unwritable: the model does something that no instruction says.
    """
    if type(model) is not Transformer or type(model.decoder) is not Stack or model.encoder:
        unwritable("a model that is not a decoder alone")
    for module in named_modules(model).values():
        if any(callable(getattr(type(module), name, None)) for name in vars(module)):
            unwritable(f"a method of its own on a {type(module).__name__}")
    if not model.has_head or model.classifier is not None:
        unwritable("a model without a head for tokens")
    return _Lowering(model, model.decoder).tape


class _Lowering:
    def __init__(self, model: Transformer, stack: Stack) -> None:
        self.model = model
        self.d_model = model.token_embedding.weight.shape[1]
        self.tape = Tape(model)
        self.x = self.tape.place(self.d_model)
        self.normed = self.tape.place(self.d_model)
        self.written = self.tape.place(self.d_model)
        self._embed(stack.positions)
        self._into_x(stack.input_norm)
        for index, block in enumerate(stack.blocks):
            self._block(block, stack.positions, index)
        self._into_x(stack.final_norm)
        self._head(model)

    def _embed(self, positions: Positions) -> None:
        tape, model, n = self.tape, self.model, self.d_model
        tape.write(
            Operation.EMBED,
            output=self.x,
            n_out=n,
            number=model.embedding_scale,
            **tape.matrix(model.token_embedding.weight),
        )
        tables: list[tuple[Tensor, int]] = []
        if model.segment_embedding is not None:
            tables.append((model.segment_embedding.weight, 0))
        if type(positions) is Learned:
            tables.append((positions.embedding.weight, n))
        elif type(positions) is Sinusoidal:
            tables.append((positions.table, n))
        elif type(positions) not in (NoPositions, Rotary, ALiBi, BucketedBias):
            unwritable(positions)
        for table, stride in tables:
            gain = tape.address(table.detach())
            tape.write(Operation.PLACE, output=self.x, n_out=n, stride=stride, gain=gain)

    def _into_x(self, norm: nn.Module) -> None:
        self.tape.norm(norm, input=self.x, output=self.x)

    def _block(self, block: nn.Module, positions: Positions, index: int) -> None:
        if type(block) not in (Block, ParallelBlock):
            unwritable(block)
        block = cast("Block", block)

        def attend(**fields: Any) -> None:
            self._attention(block.attention, positions, index, **fields)

        def feed(**fields: Any) -> None:
            self._feed_forward(block.feed_forward, **fields)

        if type(block) is Block and block.cross_attention is None:
            self._residual(block.residual, block.attention_norm, attend)
            self._residual(block.residual, block.feed_forward_norm, feed)
        elif type(block) is ParallelBlock and block.cross_attention is None:
            attend(input=self._normed(block.attention_norm), output=self.written)
            place = self._normed(block.feed_forward_norm)
            if place == self.x:  # what both read is kept until both have read it
                feed(input=place, output=self.normed)
                self._add(self.written)
                self._add(self.normed)
            else:
                self._add(self.written)
                feed(input=place, output=self.x, plus=self.x)
        else:
            unwritable("a block that looks across")

    def _residual(self, rule: object, norm: nn.Module, layer: Layer) -> None:
        x, written = self.x, self.written
        if rule is pre_norm:
            layer(input=self._normed(norm), output=x, plus=x)
        elif rule is no_residual:
            layer(input=self._normed(norm), output=x)
        elif rule is post_norm:
            layer(input=x, output=x, plus=x)
            self._into_x(norm)
        elif isinstance(rule, partial) and rule.func is deep_norm:
            layer(input=x, output=x, plus=x, factor=rule.keywords["alpha"])
            self._into_x(norm)
        elif rule is output_norm:
            layer(input=x, output=written)
            self._add(self.tape.norm(norm, input=written, output=written))
        elif rule is sandwich_norm and type(norm) is Sandwich:
            layer(input=self._normed(norm.before), output=written)
            self._add(self.tape.norm(norm.after, input=written, output=written))
        else:
            unwritable(f"the residual rule {rule}")

    def _normed(self, norm: nn.Module) -> int:
        return self.tape.norm(norm, input=self.x, output=self.normed)

    def _add(self, place: int) -> None:
        self.tape.write(Operation.ADD, input=place, output=self.x, n_out=self.d_model)

    def _attention(
        self, layer: nn.Module, positions: Positions, index: int, *, input: int, **fields: Any
    ) -> None:
        if type(layer) is not MultiHeadAttention:
            unwritable(layer)
        tape, heads, kv_heads = self.tape, layer.n_heads, layer.n_kv_heads
        widths = [part.out_features for part in (layer.query, layer.key, layer.value)]
        query, key, value = (tape.place(width) for width in widths)
        mixed = tape.place(layer.output.in_features)
        tape.linear(layer.query, input=input, output=query, wait=False)
        tape.linear(layer.key, input=input, output=key, wait=False)
        tape.linear(layer.value, input=input, output=value)
        for norm, place, vectors in (
            (layer.query_norm, query, heads),
            (layer.key_norm, key, kv_heads),
        ):
            at_once = 1 if layer.norms_over_all_heads else vectors
            tape.norm(norm, input=place, output=place, vectors=at_once)
        turns = type(positions) is Rotary
        attention = Attention(
            layer=index,
            n_heads=heads,
            n_kv_heads=kv_heads,
            d_head=widths[0] // heads,
            d_value=widths[2] // kv_heads,
            query=query,
            key=key,
            value=value,
            window=layer.window or 0,
            context=self.model.context_length,
            n_rotated=positions.n_rotated if turns else 0,
            interleaved=turns and positions.pairing == "interleaved",
            scale=layer.scale,
            soft_cap=layer.soft_cap or 0.0,
            cos=tape.address(positions.cos) if turns else None,
            sin=tape.address(positions.sin) if turns else None,
            by_distance=tape.address(self._by_distance(positions, widths[0] // heads, heads)),
            sinks=tape.address(None if layer.sinks is None else layer.sinks.detach()),
        )
        tape.attend(attention, output=mixed)
        tape.linear(layer.output, input=mixed, **fields)

    def _by_distance(self, positions: Positions, d_head: int, n_heads: int) -> Tensor | None:
        """What is added to the score of a key by its distance: (heads, context)."""
        if type(positions) not in (ALiBi, BucketedBias):
            return None
        last = self.model.context_length - 1
        view = look(1, torch.device("cpu"), causal=True, start=last)
        with torch.no_grad():
            bias = positions.bias(torch.zeros(1, n_heads, 1, d_head), view, 1.0)
        assert bias is not None
        return bias[:, 0].flip(-1).contiguous()

    def _feed_forward(self, layer: nn.Module, *, input: int, **fields: Any) -> None:
        tape = self.tape
        if type(layer) is MLP:
            up = tape.place(layer.up.out_features)
            tape.linear(layer.up, input=input, output=up, kind=activation(layer.activation))
        elif type(layer) is GatedMLP:
            up, gate = (tape.place(layer.up.out_features) for _ in range(2))
            tape.linear(layer.gate, input=input, output=gate, kind=activation(layer.activation))
            tape.linear(layer.up, input=input, output=up, times=gate)
        else:
            unwritable(layer)
        tape.linear(layer.down, input=up, **fields)

    def _head(self, model: Transformer) -> None:
        tape, transform, x = self.tape, model.head_transform, self.x
        if type(transform) is HeadTransform:
            bend = activation(transform.activation)
            tape.linear(transform.dense, input=x, output=self.normed, kind=bend)
            x = tape.norm(transform.norm, input=self.normed, output=self.normed)
        elif type(transform) is not nn.Identity:
            unwritable(transform)
        if model.head_scale != 1.0:
            tape.write(Operation.ADD, output=x, n_out=self.d_model, factor=model.head_scale)
        logits = tape.width  # behind a row's scratch
        tape.product(model.head_weight, model.head_bias, input=x, output=logits)
        if model.soft_cap is not None:
            rows = model.head_weight.shape[0]
            tape.write(Operation.CAP, output=logits, n_out=rows, number=model.soft_cap)
