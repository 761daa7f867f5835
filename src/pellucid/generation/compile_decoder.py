"""A decoder written down as a tape, for code that has no Python in it.

Nothing is guessed: what hooks, parametrisations or classes of a user's own would do, only the model
itself does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pellucid.generation.decode_program import DecodeProgram, activation, both_norms, refuse
from pellucid.model import Block, Positions, Stack, Transformer, look
from pellucid.model.facts import (
    AddedPositionFacts,
    BlockFacts,
    ClassificationHeadFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    HeadTransformFacts,
    IdentityFacts,
    LanguageHeadFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    NoHeadFacts,
    NoPositionFacts,
    ResidualFacts,
    ResidualPart,
    RotaryFacts,
    SoftmaxAttentionFacts,
    StackFacts,
    TransformerFacts,
    UnknownFacts,
    attention_facts,
    block_facts,
    head_facts,
    model_facts,
    position_facts,
    stack_facts,
    tensor_at,
)
from pellucid.native import Attention, Operation
from pellucid.typed import named_modules

#: What a layer writes: from one place to another, perhaps with something added.
Layer = Callable[..., None]


def compile_decoder(model: Transformer) -> DecodeProgram:
    """The tape of a decoder.

    Raises:
        Unwritable: the model does something that no instruction says.
    """
    stack = model.decoder
    if stack is None or not _is_plain_decoder(model, stack):
        refuse("a model that is not a decoder alone")
    for module in named_modules(model).values():
        if any(callable(getattr(type(module), name, None)) for name in vars(module)):
            refuse(f"a method of its own on a {type(module).__name__}")
        if parametrize.is_parametrized(module):
            refuse("a matrix that is computed from others")
    head = head_facts(model.output_head)
    match head:
        case LanguageHeadFacts():
            return _Compiler(model, stack, head).tape
        case ClassificationHeadFacts() | NoHeadFacts() | UnknownFacts():
            return refuse("a model without a head for tokens")
        case _:
            assert_never(head)


def _is_plain_decoder(model: Transformer, stack: Stack) -> bool:
    facts, stacked = model_facts(model), stack_facts(stack)
    is_known = isinstance(facts, TransformerFacts) and isinstance(stacked, StackFacts)
    return is_known and model.encoder is None


class _Compiler:
    def __init__(self, model: Transformer, stack: Stack, head: LanguageHeadFacts) -> None:
        self.model = model
        self.d_model = model.token_embedding.weight.shape[1]
        self.tape = DecodeProgram(model)
        self.x = self.tape.place(self.d_model)
        self.normed = self.tape.place(self.d_model)
        self.written = self.tape.place(self.d_model)
        self._embed(stack.positions)
        self._into_x(stack.input_norm)
        for index, block in enumerate(stack.blocks):
            self._block(cast("Block", block), stack.positions, index)
        self._into_x(stack.final_norm)
        self._head(model, head)

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
        facts = position_facts(positions)
        match facts:
            case AddedPositionFacts(table=path):
                tables.append((tensor_at(positions, path), n))
            case NoPositionFacts() | RotaryFacts() | DistanceBiasFacts():
                pass
            case DistanceVectorFacts() | UnknownFacts():
                refuse(positions)
            case _:
                assert_never(facts)
        for table, stride in tables:
            gain = tape.address(table.detach())
            tape.write(Operation.PLACE, output=self.x, n_out=n, stride=stride, gain=gain)

    def _into_x(self, norm: nn.Module) -> None:
        self.tape.norm(norm, input=self.x, output=self.x)

    def _block(self, block: Block, positions: Positions, index: int) -> None:
        def attend(**fields: Any) -> None:
            self._attention(block.attention, positions, index, **fields)

        def feed(**fields: Any) -> None:
            self.tape.feed_forward(block.feed_forward, **fields)

        facts = block_facts(block)
        match facts:
            case BlockFacts(cross_attention=str()):
                refuse("a block that looks across")
            case BlockFacts(order="sequential", residual=residual):
                self._residual(residual, block.attention_norm, attend)
                self._residual(residual, block.feed_forward_norm, feed)
            case BlockFacts():
                self._parallel(block, attend, feed)
            case UnknownFacts():
                refuse(block)
            case _:
                assert_never(facts)

    def _parallel(self, block: Block, attend: Layer, feed: Layer) -> None:
        attend(input=self._normed(block.attention_norm), output=self.written)
        place = self._normed(block.feed_forward_norm)
        if place == self.x:  # what both read is kept until both have read it
            feed(input=place, output=self.normed)
            self._add(self.written)
            self._add(self.normed)
        else:
            self._add(self.written)
            feed(input=place, output=self.x, plus=self.x)

    def _residual(self, facts: ResidualPart, norm: nn.Module, layer: Layer) -> None:
        match facts:
            case ResidualFacts():
                self._joined(facts, norm, layer)
            case UnknownFacts(part=name):
                refuse(f"the residual rule {name}")
            case _:
                assert_never(facts)

    def _joined(self, facts: ResidualFacts, norm: nn.Module, layer: Layer) -> None:
        x, written, carried = self.x, self.written, facts.carried
        past = {} if carried == 0 else {"plus": x, "factor": carried}
        match facts.norm:
            case "input":
                layer(input=self._normed(norm), output=x, **past)
            case "sum":
                layer(input=x, output=x, **past)
                self._into_x(norm)
            case "output" | "sandwich" if carried != 1:
                refuse(f"a stream that is carried on times {carried}")
            case "output":
                layer(input=x, output=written)
                self._add(self.tape.norm(norm, input=written, output=written))
            case "sandwich":
                before, after = both_norms(norm)
                layer(input=self._normed(before), output=written)
                self._add(self.tape.norm(after, input=written, output=written))
            case _:
                assert_never(facts.norm)

    def _normed(self, norm: nn.Module) -> int:
        return self.tape.norm(norm, input=self.x, output=self.normed)

    def _add(self, place: int) -> None:
        self.tape.write(Operation.ADD, input=place, output=self.x, n_out=self.d_model)

    def _attention(
        self, layer: nn.Module, positions: Positions, index: int, *, input: int, **fields: Any
    ) -> None:
        facts = attention_facts(layer)
        match facts:
            case SoftmaxAttentionFacts(keys_from="same_text"):
                mixed = self._softmax(layer, facts, positions, index, input)
                self.tape.linear(layer.get_submodule(facts.output), input=mixed, **fields)
            case (
                SoftmaxAttentionFacts()
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
        """Queries, keys and values, and what each head gathers: the place of it."""
        tape, n_heads, n_kv_heads = self.tape, facts.n_heads, facts.n_kv_heads
        d_head, d_value = facts.d_head, facts.d_value
        widths = (n_heads * d_head, n_kv_heads * d_head, n_kv_heads * d_value)
        query, key, value = (tape.place(width) for width in widths)
        mixed = tape.place(n_heads * d_value)
        tape.linear(layer.get_submodule(facts.query), input=input, output=query, wait=False)
        tape.linear(layer.get_submodule(facts.key), input=input, output=key, wait=False)
        tape.linear(layer.get_submodule(facts.value), input=input, output=value)
        for norm, place, vectors in (
            (facts.query_norm, query, n_heads),
            (facts.key_norm, key, n_kv_heads),
        ):
            if norm is not None:
                at_once = 1 if facts.norms_over_all_heads else vectors
                tape.norm(layer.get_submodule(norm), input=place, output=place, vectors=at_once)
        placed = position_facts(positions)
        rotary = placed if isinstance(placed, RotaryFacts) else None
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
            context=self.model.context_length,
            n_rotated=0 if rotary is None else rotary.n_rotated,
            interleaved=rotary is not None and rotary.pairing == "interleaved",
            scale=facts.scale,
            soft_cap=facts.soft_cap or 0.0,
            cos=tape.address(None if rotary is None else tensor_at(positions, rotary.cos)),
            sin=tape.address(None if rotary is None else tensor_at(positions, rotary.sin)),
            by_distance=tape.address(self._by_distance(positions, d_head, n_heads)),
            sinks=tape.address(sinks),
        )
        tape.attend(attention, output=mixed)
        return mixed

    def _by_distance(self, positions: Positions, d_head: int, n_heads: int) -> Tensor | None:
        """What is added to the score of a key by its distance: (heads, context)."""
        if not isinstance(position_facts(positions), DistanceBiasFacts):
            return None
        last = self.model.context_length - 1
        view = look(1, torch.device("cpu"), causal=True, start=last)
        with torch.no_grad():
            bias = positions.bias(torch.zeros(1, n_heads, 1, d_head), view, 1.0)
        assert bias is not None
        return bias[:, 0].flip(-1).contiguous()

    def _head(self, model: Transformer, facts: LanguageHeadFacts) -> None:
        tape, transform, x = self.tape, facts.transform, self.x
        match transform:
            case HeadTransformFacts():
                dense = model.head_transform.get_submodule(transform.dense)
                norm = model.head_transform.get_submodule(transform.norm)
                kind = activation(transform.activation)
                tape.linear(dense, input=x, output=self.normed, kind=kind)
                x = tape.norm(norm, input=self.normed, output=self.normed)
            case IdentityFacts():
                pass
            case UnknownFacts():
                refuse(model.head_transform)
            case _:
                assert_never(transform)
        if facts.scale != 1.0:
            tape.write(Operation.ADD, output=x, n_out=self.d_model, factor=facts.scale)
        logits = tape.width  # behind a row's scratch
        tape.product(model.head_weight, model.head_bias, input=x, output=logits)
        if facts.soft_cap is not None:
            rows = model.head_weight.shape[0]
            tape.write(Operation.CAP, output=logits, n_out=rows, number=facts.soft_cap)
