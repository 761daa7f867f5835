"""From a model's config to the parts of its drawing.

Comes in: a `config.Transformer` and its name. Goes out: a `Drawing`. Counts and their formulas are
those of `counting`; it adds up nothing but them. It does not know where anything will be drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from pellucid.config import (
    ALiBi,
    BucketedBias,
    ClassificationHead,
    LanguageHead,
    Learned,
    NoHead,
    NoPositions,
    Rotary,
    ShawRelative,
    Sinusoidal,
    Transformer,
)
from pellucid.counting import parameter_count
from pellucid.counting.layers import NamedStack, stacks
from pellucid.drawing.build.attention import KEYS, SCORES
from pellucid.drawing.build.block import blocks
from pellucid.drawing.build.counts import Counted
from pellucid.drawing.elements import (
    Arrow,
    Aside,
    Box,
    Column,
    Drawing,
    Fork,
    Link,
    Words,
)

_HEAD, _EMBEDDING, _SHARED, _ENCODED = "head", "embedding", "positions", "encoded"


def assemble(model: Transformer, name: str) -> Drawing:
    """The drawing of a model: a column for each stack, the encoder's first."""
    counted = Counted(model)
    named = stacks(model)
    last = named[-1]
    columns = [
        _column(counted, named_stack, first=named_stack is named[0], last=named_stack is last)
        for named_stack in named
    ]
    links = [
        Link("positions", named_stack.prefix + _SHARED, named_stack.prefix + SCORES)
        for named_stack in named
        if isinstance(named_stack.stack.positions, BucketedBias | ShawRelative)
    ]
    if len(named) > 1:
        links.append(Link("encoded", _ENCODED, KEYS))
    if isinstance(model.head, LanguageHead) and model.embedding.tied:
        links.append(Link("tied", _HEAD, last.prefix + _EMBEDDING))
    return Drawing(name, _sentence(model, named), tuple(columns), tuple(links))


def _sentence(model: Transformer, named: Sequence[NamedStack]) -> str:
    """What kind of model it is, how deep, how many parameters."""
    if len(named) > 1:
        kind = "an encoder and a decoder"
    else:
        kind = "a decoder" if named[0].causal else "an encoder"
    layers = " and ".join(str(named_stack.stack.n_layers) for named_stack in named)
    return (
        f"{kind} of {layers} layers, d_model {model.d_model}, context {model.context_length:,}: "
        f"{parameter_count(model):,} parameters"
    )


def _column(counted: Counted, named: NamedStack, *, first: bool, last: bool) -> Column:
    stack, prefix, shape = named.stack, named.prefix, counted.shape
    column: Column = (
        Words(f"{prefix}token ids"),
        Arrow("(batch, time)"),
        *_embedding(counted, named, first=first),
        shape,
        *_positions(counted, named),
    )
    if stack.input_norm is not None:
        norm = counted.box(f"{prefix}input norm", type(stack.input_norm).__name__, ("input norm",))
        column += (norm, shape)
    for frame in blocks(counted, named):
        column += (frame, shape)
    if stack.final_norm:
        norm = counted.box(f"{prefix}final norm", type(stack.norm).__name__, ("final norm",))
        column += (norm, shape)
    if last:
        return column + _top(counted)
    return (*column, Words("encoded text", _ENCODED))


def _embedding(counted: Counted, named: NamedStack, *, first: bool) -> Column:
    model, key = counted.model, named.prefix + _EMBEDDING
    says = [f"{model.rows} x {model.d_model}"]
    if model.embedding.scaled:
        says.append(f"times sqrt({model.d_model})")
    if first:
        column: Column = (counted.box("token embedding", says=says, key=key),)
    else:
        column = (Box(name="token embedding", says=(*says, "the encoder's own"), key=key),)
    if model.embedding.segments is None:
        return column
    says = [f"+ one of {model.embedding.segments} vectors, by kind of text"]
    if first:
        segments = counted.box("segment embedding", says=says)
    else:
        segments = Box(name="segment embedding", says=(*says, "the encoder's own"))
    return (*column, counted.shape, segments)


def _positions(counted: Counted, named: NamedStack) -> Column:
    """What is added to the embedding, or stands aside for the scores to look at."""
    scheme, prefix, shape = named.stack.positions, named.prefix, counted.shape
    match scheme:
        case Learned():
            says = [f"+ one of {counted.model.context_length} vectors, by position"]
            return (counted.box(f"{prefix}position embedding", "Learned positions", says), shape)
        case Sinusoidal():
            says = (f"+ sines and cosines, base {scheme.base:g}",)
            return (Box(name="Sinusoidal positions", says=says), shape)
        case BucketedBias():
            says = [f"{scheme.n_buckets} buckets of distances", "a number per head in each"]
            name = "BucketedBias"
            shared = counted.box(f"{prefix}position bias", name, says, prefix + _SHARED)
            return (Aside(shared), Arrow())
        case ShawRelative():
            says = [f"a vector per distance up to {scheme.max_distance}"]
            name = "ShawRelative"
            shared = counted.box(f"{prefix}relative positions", name, says, prefix + _SHARED)
            return (Aside(shared), Arrow())
        case NoPositions() | Rotary() | ALiBi():
            return ()
        case _:
            assert_never(scheme)


def _top(counted: Counted) -> Column:
    """What is made of the last states."""
    model = counted.model
    pooler: Column = ()
    if isinstance(model.head, ClassificationHead) and model.head.pooling == "first":
        return _classes(counted, model.head)
    if model.pooler:
        box = counted.box("pooler", says=("tanh(dense(x)) of the first token",))
        pooler = (Arrow(), box, Arrow(f"(batch, {model.d_model})"), Words("pooled text"))
    match model.head:
        case LanguageHead():
            head = _head(counted, model.head)
        case NoHead():
            head = (Words("hidden states: NoHead"),)
        case ClassificationHead():
            head = _classes(counted, model.head)
        case _:
            assert_never(model.head)
    return (Fork((pooler, (Arrow(), *head))),) if pooler else head


def _classes(counted: Counted, head: ClassificationHead) -> Column:
    """Through the pooler, where the first token's state is read and there is one."""
    model, n = counted.model, len(head.names)
    column: Column = ()
    phrases = {"first": "of the first token", "mean": "of the mean", "last": "of the last token"}
    of = phrases[head.pooling]
    if model.pooler and head.pooling == "first":
        box = counted.box("pooler", says=("tanh(dense(x)) of the first token",))
        column, of = (box, Arrow(f"(batch, {model.d_model})")), "of what was pooled"
    says = [f"{model.d_model} -> {n}", of, *(["with biases"] if head.bias else [])]
    box = counted.box("classifier", "head: ClassificationHead", says)
    return (*column, box, Arrow(f"(batch, {n})"), Words("logits of classes"))


def _head(counted: Counted, head: LanguageHead) -> Column:
    model, tied = counted.model, counted.model.embedding.tied
    column: Column = ()
    if head.transform is not None:
        says = f"{type(head.transform.norm).__name__}({head.transform.activation}(dense(x)))"
        column += (counted.box("head transform", "HeadTransform", (says,)), counted.shape)
    says = [f"{model.d_model} -> {model.rows}"]
    says += ["tied to the token embedding"] if tied else []
    says += [f"of states / sqrt({model.d_model})"] if head.scaled else []
    says += ["with biases"] if head.bias else []
    box = Box(name="head: LanguageHead", says=tuple(says), key=_HEAD)
    for row in ([] if tied else ["head"]) + (["head bias"] if head.bias else []):
        part = counted.box(row)
        formula = " + ".join(filter(None, (box.formula, part.formula)))
        box = replace(box, parameters=box.parameters + part.parameters, formula=formula)
    shape = Arrow(f"(batch, time, {model.rows})")
    column += (box, shape)
    if head.soft_cap is not None:
        cap = f"{head.soft_cap:g}"
        column += (Box(name="soft cap", says=(f"{cap} tanh(z / {cap})",)), shape)
    return (*column, Words("logits"))
