"""How many parameters each part of a model has, in closed form.

Comes in: a `config.Transformer`. Goes out: one row per part: count and formula. It does not know
torch; a test holds it against the modules that `model` builds.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from pellucid.counting.formulas import Symbols, times, total, whole
from pellucid.counting.layers import AlikeLayers, NamedStack, alike, attention_symbols, stacks
from pellucid.counting.parts import (
    Part,
    attention_part,
    block_norms,
    feed_forward_part,
    norm_part,
    transform_part,
)


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A part, how often it occurs, the parameters of all of them together, and the formula."""

    part: str
    times: int
    count: int
    formula: str
    #: of `count`, those in hidden matrices: neither embeddings nor head, nor gains and biases
    hidden: int = 0


def parameters(model: Transformer) -> list[ParameterRow]:
    """The parts of `model` that hold parameters, in the order in which a token meets them.

    The symbols in the formulas are those of docs/notation.md.
    """
    table = [_embedding("token embedding", "vocab_size d_model", symbols(model))]
    if model.embedding.segments is not None:
        known = symbols(model) | {"segments": model.embedding.segments}
        table.append(_embedding("segment embedding", "segments d_model", known))
    for named in stacks(model):
        table += _stack(model, named)
    return table + head_rows(model)


def parameter_count(model: Transformer) -> int:
    """All parameters of `model`; a tied head counts once."""
    return sum(row.count for row in parameters(model))


def symbols(model: Transformer, named: NamedStack | None = None) -> dict[str, int]:
    """What formulas call the numbers of a model, and of one of its stacks."""
    known = {
        "vocab_size": model.rows,
        "context_length": model.context_length,
        "T": model.context_length,
        "d_model": model.d_model,
    }
    if named is None:
        return known
    return known | {"n_layers": named.stack.n_layers, "d_ff": named.stack.feed_forward.d_ff}


def attention_row(model: Transformer, named: NamedStack, layers: AlikeLayers) -> ParameterRow:
    """The attention of layers that are alike."""
    known = symbols(model, named) | attention_symbols(layers.attention)
    part = attention_part(layers.attention, named.stack)
    return _layers(layers.name, layers.layers, part, known, layers.number)


def cross_attention_row(model: Transformer, named: NamedStack) -> ParameterRow | None:
    """What looks at the encoder, where anything does."""
    cross, n = named.stack.cross_attention, named.stack.n_layers
    if cross is None:
        return None
    known = symbols(model, named) | attention_symbols(cross)
    return _layers("cross attention", n, attention_part(cross, named.stack), known)


def feed_forward_row(model: Transformer, named: NamedStack) -> ParameterRow:
    """The feed-forward of all layers of a stack."""
    part = feed_forward_part(named.stack.feed_forward, named.stack)
    name, known = f"{named.prefix}feed-forward", symbols(model, named)
    return _layers(name, named.stack.n_layers, part, known)


def _stack(model: Transformer, named: NamedStack) -> list[ParameterRow]:
    stack, prefix, known = named.stack, named.prefix, symbols(model, named)
    table = _positions(model, named)
    if stack.input_norm is not None:
        table.append(_one(f"{prefix}input norm", norm_part(stack.input_norm), known))
    table += [attention_row(model, named, layers) for layers in alike(named)]
    cross = cross_attention_row(model, named)
    table += [] if cross is None else [cross]
    table.append(feed_forward_row(model, named))
    each, n = norm_part(stack.norm).vectors, block_norms(stack)
    norms = _one(f"{prefix}norms of the blocks", Part("0", f"{n} n_layers ({each})"), known)
    table.append(
        ParameterRow(norms.part, n * stack.n_layers, norms.count, norms.formula, norms.hidden)
    )
    if stack.final_norm:
        table.append(_one(f"{prefix}final norm", norm_part(stack.norm), known))
    return table


def _positions(model: Transformer, named: NamedStack) -> list[ParameterRow]:
    positions, prefix = named.stack.positions, named.prefix
    known = symbols(model, named) | attention_symbols(named.stack.pattern[0])
    match positions:
        case Learned():
            return [_embedding(f"{prefix}position embedding", "context_length d_model", known)]
        case BucketedBias(n_buckets=n):
            known |= {"n_buckets": n}
            return [_embedding(f"{prefix}position bias", "n_buckets h", known)]
        case ShawRelative(max_distance=furthest, values=values):
            formula = f"(2 max_distance + 1) {'(d_k + d_v)' if values else 'd_k'}"
            known |= {"max_distance": furthest}
            return [_embedding(f"{prefix}relative positions", formula, known)]
        case NoPositions() | Sinusoidal() | Rotary() | ALiBi():
            return []
        case _:
            assert_never(positions)


def head_rows(model: Transformer) -> list[ParameterRow]:
    """What reads the last states; a head that is the embedding is counted there."""
    known, table = symbols(model), list[ParameterRow]()
    if model.pooler:
        table.append(_one("pooler", Part("d_model^2", "d_model"), known))
    match model.head:
        case NoHead():
            return table
        case ClassificationHead():
            return [*table, _classifier(model.head, known)]
        case LanguageHead():
            return table + _language_head(model, model.head)
        case _:
            assert_never(model.head)


def _classifier(head: ClassificationHead, known: Symbols) -> ParameterRow:
    known = {**known, "n_classes": len(head.names)}
    formula = total("n_classes d_model", "n_classes" if head.bias else "0")
    return _embedding("classifier", formula, known)


def _language_head(model: Transformer, head: LanguageHead) -> list[ParameterRow]:
    known, table = symbols(model), list[ParameterRow]()
    if head.transform is not None:
        table.append(_one("head transform", transform_part(head.transform), known))
    if not model.embedding.tied:
        table.append(_embedding("head", "vocab_size d_model", known))
    if head.bias:
        table.append(_one("head bias", Part("0", "vocab_size"), known))
    return table


def _embedding(name: str, formula: str, known: Symbols) -> ParameterRow:
    return ParameterRow(name, 1, whole(formula, known), formula)


def _one(name: str, part: Part, known: Symbols) -> ParameterRow:
    hidden = whole(part.matrices, known)
    return ParameterRow(name, 1, whole(part.formula, known), part.formula, hidden)


def _layers(
    name: str, layers: int, part: Part, known: Symbols, number: str = "n_layers"
) -> ParameterRow:
    formula = times(layers, number, part.formula)
    hidden = layers * whole(part.matrices, known)
    return ParameterRow(name, layers, whole(formula, known), formula, hidden)
