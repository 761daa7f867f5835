"""Compile a decoder to a program for C code.

It uses only stated facts: the effect of hooks, parametrisations and your own classes is unknown, so
a model that has them runs itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never, cast

from torch import nn
from torch.nn.utils import parametrize

from pellucid.generation.compile_entry import compile_entry
from pellucid.generation.decode_program import (
    DecodeProgram,
    activation,
    both_norms,
    is_plain_decoder,
    refuse,
)
from pellucid.generation.position_tables import position_tables
from pellucid.model import Block, Positions, Stack, Transformer
from pellucid.model.facts import (
    BlockFacts,
    ClassificationHeadFacts,
    HeadTransformFacts,
    IdentityFacts,
    LanguageHeadFacts,
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    NoHeadFacts,
    ResidualFacts,
    ResidualPart,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
    block_facts,
    head_facts,
    tensor_at,
)
from pellucid.model.packed.layers import packed_of
from pellucid.native import Activation, Attention, Operation
from pellucid.typed import named_modules

#: Appends a layer's instructions: from one place to another, perhaps with an addition.
Layer = Callable[..., None]


def compile_decoder(model: Transformer) -> DecodeProgram:
    """The program of a decoder.

    Raises:
        CannotCompile: there is no instruction for a part of the model.
    """
    stack = model.decoder
    if stack is None or not is_plain_decoder(model, stack):
        refuse("a model that is not a decoder only")
    if any(type(parameter) is not nn.Parameter for parameter in model.parameters()):
        refuse("weights that several processes share")
    for module in named_modules(model).values():
        if any(callable(getattr(type(module), name, None)) for name in vars(module)):
            refuse(f"a {type(module).__name__} with a method that was replaced")
        if parametrize.is_parametrized(module):
            refuse("a matrix that is computed from other parameters")
    head = head_facts(model.output_head)
    match head:
        case LanguageHeadFacts():
            return _Compiler(model, stack, head).program
        case ClassificationHeadFacts() | NoHeadFacts() | UnknownFacts():
            return refuse("a model without a head for tokens")
        case _:
            assert_never(head)


class _Compiler:
    def __init__(self, model: Transformer, stack: Stack, head: LanguageHeadFacts) -> None:
        self.model = model
        self.d_model = model.d_model
        self.program = DecodeProgram(model)
        self.x = self.program.place(self.d_model)
        self.normed = self.program.place(self.d_model)
        self.layer_output = self.program.place(self.d_model)
        compile_entry(self.program, stack, self.x)
        for index, block in enumerate(stack.blocks):
            self._block(cast("Block", block), stack.positions.for_layer(index), index)
        self.program.head_at = len(self.program.instructions)
        self._into_x(stack.final_norm)
        self.program.logits_at, self.program.states = len(self.program.instructions), self.x
        self._head(model, head)

    def _into_x(self, norm: nn.Module) -> None:
        self.program.norm(norm, input=self.x, output=self.x)

    def _block(self, block: Block, positions: Positions, index: int) -> None:
        def attend(**fields: Any) -> None:
            self._attention(block.attention, positions, index, **fields)

        def feed(**fields: Any) -> None:
            self.program.feed_forward(block.feed_forward, **fields)

        facts = block_facts(block)
        match facts:
            case BlockFacts(cross_attention=str()):
                refuse("a block with cross-attention")
            case BlockFacts(order="sequential", residual=residual):
                self._residual(residual, block.attention_norm, attend)
                self._residual(residual, block.get_submodule("feed_forward_norm"), feed)
            case BlockFacts():
                self._parallel(block, attend, feed)
            case UnknownFacts():
                refuse(block)
            case _:
                assert_never(facts)

    def _parallel(self, block: Block, attend: Layer, feed: Layer) -> None:
        place = self._normed(block.attention_norm)
        attend(input=place, output=self.layer_output)
        if block.feed_forward_norm is not None:
            place = self._normed(block.feed_forward_norm)
        if place == self.x:  # both layers read x, so it must not change before
            feed(input=place, output=self.normed)
            self._add(self.layer_output)
            self._add(self.normed)
        else:
            self._add(self.layer_output)
            feed(input=place, output=self.x, plus=self.x)

    def _residual(self, facts: ResidualPart, norm: nn.Module, layer: Layer) -> None:
        match facts:
            case ResidualFacts():
                self._join(facts, norm, layer)
            case UnknownFacts(part=name):
                refuse(f"the residual rule {name}")
            case _:
                assert_never(facts)

    def _join(self, facts: ResidualFacts, norm: nn.Module, layer: Layer) -> None:
        x, output, carried = self.x, self.layer_output, facts.carried
        stream = {} if carried == 0 else {"plus": x, "factor": carried}
        if facts.multiplier != 1:
            self._join_scaled(facts, norm, layer)
            return
        match facts.norm:
            case "input":
                layer(input=self._normed(norm), output=x, **stream)
            case "sum":
                layer(input=x, output=x, **stream)
                self._into_x(norm)
            case "output" | "sandwich" if carried != 1:
                refuse(f"a residual stream times {carried}")
            case "output":
                layer(input=x, output=output)
                self._add(self.program.norm(norm, input=output, output=output))
            case "sandwich":
                input_norm, output_norm = both_norms(norm)
                layer(input=self._normed(input_norm), output=output)
                self._add(self.program.norm(output_norm, input=output, output=output))
            case _:
                assert_never(facts.norm)

    def _join_scaled(self, facts: ResidualFacts, norm: nn.Module, layer: Layer) -> None:
        """x + multiplier f(norm(x))."""
        if facts.norm != "input" or facts.carried != 1:
            refuse(f"a layer times {facts.multiplier} that joins the stream by another rule")
        layer(input=self._normed(norm), output=self.layer_output)
        self.program.write(
            Operation.ADD, output=self.layer_output, n_out=self.d_model, factor=facts.multiplier
        )
        self._add(self.layer_output)

    def _normed(self, norm: nn.Module) -> int:
        return self.program.norm(norm, input=self.x, output=self.normed)

    def _add(self, place: int) -> None:
        self.program.write(Operation.ADD, input=place, output=self.x, n_out=self.d_model)

    def _attention(
        self, layer: nn.Module, positions: Positions, index: int, *, input: int, **fields: Any
    ) -> None:
        facts = attention_facts(layer)
        match facts:
            case SoftmaxAttentionFacts(clip=float()) | SoftmaxAttentionFacts(output_gate=str()):
                refuse("attention with a clip or a gate")
            case SoftmaxAttentionFacts(norms_after_rotation=True):
                refuse("a norm of queries and keys after their rotation")
            case SoftmaxAttentionFacts(keys_from="same_text"):
                mixed = self._softmax(layer, facts, positions, index, input)
                self.program.linear(layer.get_submodule(facts.output), input=mixed, **fields)
            case (
                SoftmaxAttentionFacts()
                | LatentAttentionFacts()
                | LinearAttentionFacts()
                | NeuralMemoryFacts()
                | UnknownFacts()
            ):
                refuse(layer)
            case _:
                assert_never(facts)

    def _softmax(
        self,
        layer: nn.Module,
        facts: SoftmaxAttentionFacts,
        positions: Positions,
        index: int,
        input: int,
    ) -> int:
        """Queries, keys and values, and the outputs of all heads, whose place it returns."""
        program, n_heads, n_kv_heads = self.program, facts.n_heads, facts.n_kv_heads
        d_head, d_value, context = facts.d_head, facts.d_value, self.model.context_length
        tables = position_tables(positions, facts, context_length=context)
        widths = (n_heads * d_head, n_kv_heads * d_head, n_kv_heads * d_value)
        query, key, value = (program.place(width) for width in widths)
        mixed = program.place(n_heads * d_value)
        program.linear(layer.get_submodule(facts.query), input=input, output=query, wait=False)
        program.linear(layer.get_submodule(facts.key), input=input, output=key, wait=False)
        program.linear(layer.get_submodule(facts.value), input=input, output=value)
        for norm, place, n_vectors in (
            (facts.query_norm, query, n_heads),
            (facts.key_norm, key, n_kv_heads),
        ):
            if norm is not None:
                vectors = 1 if facts.norms_over_all_heads else n_vectors
                program.norm(layer.get_submodule(norm), input=place, output=place, vectors=vectors)
        sinks = None if facts.sinks is None else tensor_at(layer, facts.sinks).detach()
        attention = Attention(
            layer=index,
            n_heads=n_heads,
            n_kv_heads=n_kv_heads,
            d_head=d_head,
            d_value=d_value,
            query=query,
            key=key,
            value=value,
            window=facts.window or 0,
            context=context,
            n_rotated=tables.n_rotated,
            interleaved=tables.interleaved,
            scale=facts.scale,
            soft_cap=facts.soft_cap or 0.0,
            cos=program.address(tables.cos),
            sin=program.address(tables.sin),
            by_distance=program.address(tables.by_distance),
            sinks=program.address(sinks),
        )
        program.attend(attention, output=mixed)
        return mixed

    def _head(self, model: Transformer, facts: LanguageHeadFacts) -> None:
        program, transform, x = self.program, facts.transform, self.x
        match transform:
            case HeadTransformFacts():
                dense = model.head_transform.get_submodule(transform.dense)
                norm = model.head_transform.get_submodule(transform.norm)
                name = transform.activation
                kind = Activation.LINEAR if name == "identity" else activation(name)
                place = program.place(transform.width)
                program.linear(dense, input=x, output=place, kind=kind)
                x = program.norm(norm, input=place, output=place)
            case IdentityFacts():
                pass
            case UnknownFacts():
                refuse(model.head_transform)
            case _:
                assert_never(transform)
        owner = model.token_embedding if model.head is None else model.head
        weight = packed_of(owner) or model.head_weight
        n_out, n_in = weight.shape
        if facts.scale != 1.0:
            program.write(Operation.ADD, output=x, n_out=n_in, factor=facts.scale)
        logits = program.width  # after a row's scratch memory
        program.product(weight, model.head_bias, input=x, output=logits)
        if facts.soft_cap is not None:
            program.write(Operation.CAP, output=logits, n_out=n_out, number=facts.soft_cap)
