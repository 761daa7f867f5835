"""From a model's config to the parts of its drawing.

Counts and their formulas come from `counting`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from pellucid.config import (
    ALiBi,
    BucketedBias,
    ClassificationHead,
    Disentangled,
    HeadTransform,
    LanguageHead,
    Learned,
    NoHead,
    NoPositions,
    OnePositions,
    Rotary,
    ShawRelative,
    Sinusoidal,
    Transformer,
)
from pellucid.counting import active_parameter_count, parameter_count
from pellucid.counting.layers import NamedStack, stacks
from pellucid.counting.parameters import position_row_name
from pellucid.drawing.build.attention import KEYS
from pellucid.drawing.build.block import ModelBoxes, blocks, position_keys
from pellucid.drawing.elements import (
    Arrow,
    Box,
    Column,
    Drawing,
    Fork,
    Link,
    SideBox,
    Words,
)
from pellucid.printable import join_counts

_HEAD, _EMBEDDING, _ENCODED = "head", "embedding", "encoded"


def assemble(model: Transformer, name: str) -> Drawing:
    """The drawing of a model: a column for each stack, the encoder's first."""
    model_boxes = ModelBoxes(model)
    named_stacks = stacks(model)
    last = named_stacks[-1]
    columns = [
        _column(
            model_boxes, named_stack, first=named_stack is named_stacks[0], last=named_stack is last
        )
        for named_stack in named_stacks
    ]
    links = [
        Link("positions", *position_keys(named_stack, scheme))
        for named_stack in named_stacks
        for scheme in named_stack.stack.schemes
        if isinstance(scheme, BucketedBias | ShawRelative | Disentangled)
    ]
    if len(named_stacks) > 1:
        links.append(Link("encoded", _ENCODED, KEYS))
    if isinstance(model.head, LanguageHead) and model.embedding.tied:
        links.append(Link("tied", _HEAD, last.prefix + _EMBEDDING))
    return Drawing(name, _sentence(model, named_stacks), tuple(columns), tuple(links))


def _sentence(model: Transformer, named_stacks: Sequence[NamedStack]) -> str:
    """The kind of model, its depth and its parameters."""
    if len(named_stacks) > 1:
        kind = "an encoder and a decoder"
    else:
        kind = "a decoder" if named_stacks[0].causal else "an encoder"
    n_layers = (named_stack.stack.n_layers for named_stack in named_stacks)
    layers = join_counts(n_layers, "layer", joint=" and ")
    n, n_active = parameter_count(model), active_parameter_count(model)
    used = "" if n == n_active else f", of which a token uses {n_active:,}"
    return (
        f"{kind} of {layers}, d_model {model.d_model}, context {model.context_length:,}: "
        f"{n:,} parameters{used}"
    )


def _column(model_boxes: ModelBoxes, named_stack: NamedStack, *, first: bool, last: bool) -> Column:
    stack, prefix, shape = named_stack.stack, named_stack.prefix, model_boxes.shape
    column: Column = (
        Words(f"{prefix}token ids"),
        Arrow("(batch, time)"),
        *_embedding(model_boxes, named_stack, first=first),
        Arrow(f"(batch, time, {model_boxes.model.token_width})"),
        *_entry(model_boxes, named_stack),
    )
    for frame in blocks(model_boxes, named_stack):
        column += (frame, shape)
    if stack.final_norm:
        norm = model_boxes.box(f"{prefix}final norm", type(stack.norm).__name__, ("final norm",))
        column += (norm, shape)
    if last:
        return column + _top(model_boxes)
    return (*column, Words("encoded text", _ENCODED))


def _embedding(model_boxes: ModelBoxes, named_stack: NamedStack, *, first: bool) -> Column:
    model, key = model_boxes.model, named_stack.prefix + _EMBEDDING
    lines = [f"{model.rows} x {model.token_width}"]
    if model.embedding.scaled:
        lines.append(f"times sqrt({model.d_model})")
    elif model.embedding.multiplier is not None:
        lines.append(f"times {model.embedding.multiplier:.6g}")
    if first:
        column: Column = (model_boxes.box("token embedding", lines=lines, key=key),)
    else:
        column = (Box(name="token embedding", lines=(*lines, "the encoder's own"), key=key),)
    if model.embedding.segments is None:
        return column
    lines = [f"+ one of {model.embedding.segments} vectors, by kind of text"]
    if first:
        segments = model_boxes.box("segment embedding", lines=lines)
    else:
        segments = Box(name="segment embedding", lines=(*lines, "the encoder's own"))
    return (*column, Arrow(f"(batch, time, {model.token_width})"), segments)


def _entry(model_boxes: ModelBoxes, named_stack: NamedStack) -> Column:
    """From the embedding to the input of the first block."""
    model, stack, prefix = model_boxes.model, named_stack.stack, named_stack.prefix
    schemes = stack.schemes
    schemes += () if stack.embedding_positions is None else (stack.embedding_positions,)
    added: Column = ()
    for scheme in schemes:
        added += _positions(model_boxes, named_stack, scheme)
    norm: Column = ()
    if stack.input_norm is not None:
        name = type(stack.input_norm).__name__
        box = model_boxes.box(f"{prefix}input norm", name, ("input norm",))
        norm = (box, Arrow(f"(batch, time, {model.input_norm_width})"))
    projection = model.embedding.projection
    if projection is None:
        return added + norm
    lines = [f"{projection.width} -> {model.d_model}"]
    box = model_boxes.box(f"{prefix}embedding projection", type(projection).__name__, lines)
    mapped: Column = (box, model_boxes.shape)
    match projection.place:
        case "first":
            return mapped + added + norm
        case "before_norm":
            return added + mapped + norm
        case "last":
            return added + norm + mapped
        case _:
            assert_never(projection.place)


def _side_box(
    model_boxes: ModelBoxes, named_stack: NamedStack, scheme: OnePositions, lines: list[str]
) -> SideBox:
    """The box of a scheme that acts within the layers."""
    row, (key, _) = position_row_name(named_stack, scheme), position_keys(named_stack, scheme)
    return SideBox(model_boxes.box(row, type(scheme).__name__, lines, key))


def _positions(model_boxes: ModelBoxes, named_stack: NamedStack, scheme: OnePositions) -> Column:
    """The part that is added to the embedding, or the side box that the scores read."""
    row = position_row_name(named_stack, scheme)
    shape = Arrow(f"(batch, time, {model_boxes.model.positions_width})")
    match scheme:
        case Learned(offset=offset):
            lines = [f"+ one of {model_boxes.model.context_length} vectors, by position"]
            lines += [f"{offset} more are never read"] if offset else []
            return (
                model_boxes.box(row, "Learned positions", lines),
                shape,
            )
        case Sinusoidal():
            lines = (f"+ sines and cosines, base {scheme.base:g}",)
            return (Box(name="Sinusoidal positions", lines=lines), shape)
        case BucketedBias():
            lines = [f"{scheme.n_buckets} buckets of distances", "a number per head in each"]
            lines += ["each layer has its own"] if scheme.per_layer else []
            return (_side_box(model_boxes, named_stack, scheme, lines), Arrow())
        case ShawRelative():
            lines = [f"a vector per distance up to {scheme.max_distance}"]
            return (_side_box(model_boxes, named_stack, scheme, lines), Arrow())
        case Disentangled():
            reach = "" if scheme.max_distance is None else f", far ones up to {scheme.max_distance}"
            lines = [f"{scheme.n_buckets} vectors of distances{reach}"]
            lines += [] if scheme.norm is None else [type(scheme.norm).__name__]
            return (_side_box(model_boxes, named_stack, scheme, lines), Arrow())
        case NoPositions() | Rotary() | ALiBi():
            return ()
        case _:
            assert_never(scheme)


def _top(model_boxes: ModelBoxes) -> Column:
    """The parts after the last states."""
    model = model_boxes.model
    pooler: Column = ()
    if isinstance(model.head, ClassificationHead) and model.head.pooling == "first":
        return _classes(model_boxes, model.head)
    if model.pooler:
        box = model_boxes.box("pooler", lines=("tanh(dense(x)) of the first token",))
        pooler = (Arrow(), box, Arrow(f"(batch, {model.d_model})"), Words("pooled text"))
    match model.head:
        case LanguageHead():
            head = _head(model_boxes, model.head)
        case NoHead():
            head = (Words("hidden states: NoHead"),)
        case ClassificationHead():
            head = _classes(model_boxes, model.head)
        case _:
            assert_never(model.head)
    return (Fork((pooler, (Arrow(), *head))),) if pooler else head


def _classes(model_boxes: ModelBoxes, head: ClassificationHead) -> Column:
    """The classifier; before it the pooler, if there is one for the first token."""
    model, n = model_boxes.model, len(head.names)
    column: Column = ()
    phrases = {"first": "of the first token", "mean": "of the mean", "last": "of the last token"}
    pooled_input = phrases[head.pooling]
    if model.pooler and head.pooling == "first":
        box = model_boxes.box("pooler", lines=("tanh(dense(x)) of the first token",))
        column, pooled_input = (box, Arrow(f"(batch, {model.d_model})")), "of the pooled text"
    if head.transform is not None:
        lines = [_transform_words(head.transform), pooled_input]
        box = model_boxes.box("classifier transform", "HeadTransform", lines)
        column += (box, Arrow(f"(batch, {model.d_model})"))
        pooled_input = "of the transformed vector"
    lines = [f"{model.d_model} -> {n}", pooled_input, *(["with biases"] if head.bias else [])]
    box = model_boxes.box("classifier", "head: ClassificationHead", lines)
    return (*column, box, Arrow(f"(batch, {n})"), Words("logits of classes"))


def _transform_words(transform: HeadTransform) -> str:
    """The transform as a formula."""
    formula = "dense(x)"
    if transform.activation is not None:
        formula = f"{transform.activation}({formula})"
    return formula if transform.norm is None else f"{type(transform.norm).__name__}({formula})"


def _head(model_boxes: ModelBoxes, head: LanguageHead) -> Column:
    model, tied = model_boxes.model, model_boxes.model.embedding.tied
    column: Column = ()
    if head.transform is not None:
        lines = (_transform_words(head.transform),)
        box = model_boxes.box("head transform", "HeadTransform", lines)
        column += (box, Arrow(f"(batch, time, {model.head_width})"))
    lines = [f"{model.head_width} -> {model.rows}"]
    lines += ["tied to the token embedding"] if tied else []
    lines += [f"of states / sqrt({model.d_model})"] if head.scaled else []
    lines += [] if head.multiplier is None else [f"of states x {head.multiplier:.6g}"]
    lines += ["with fixed biases" if head.fixed_bias else "with biases"] if head.bias else []
    box = Box(name="head: LanguageHead", lines=tuple(lines), key=_HEAD)
    learns_bias = head.bias and not head.fixed_bias
    for row in ([] if tied else ["head"]) + (["head bias"] if learns_bias else []):
        part = model_boxes.box(row)
        formula = " + ".join(filter(None, (box.formula, part.formula)))
        box = replace(box, parameters=box.parameters + part.parameters, formula=formula)
    shape = Arrow(f"(batch, time, {model.rows})")
    column += (box, shape)
    if head.soft_cap is not None:
        cap = f"{head.soft_cap:g}"
        column += (Box(name="soft cap", lines=(f"{cap} tanh(z / {cap})",)), shape)
    return (*column, Words("logits"))
