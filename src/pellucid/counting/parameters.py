"""How many parameters each part of a model has, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pellucid.config import (
    ALiBi,
    BucketedBias,
    ClassificationHead,
    Disentangled,
    LanguageHead,
    Learned,
    NoHead,
    NoPositions,
    Positions,
    Rotary,
    ShawRelative,
    Sinusoidal,
    Transformer,
)
from pellucid.counting.formulas import Symbols, evaluate_int, times, total
from pellucid.counting.layers import (
    LayerGroup,
    NamedStack,
    attention_symbols,
    group_layers,
    stacks,
)
from pellucid.counting.part_formulas import (
    Part,
    attention_part,
    block_norms,
    feed_forward_part,
    norm_part,
    projection_part,
    transform_part,
)


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A part, how often it occurs, the parameters of all of its copies, and the formula."""

    part: str
    times: int
    count: int
    formula: str
    #: the part of `count` in hidden matrices: no embeddings, output head, gains or biases
    hidden: int = 0


def parameters(model: Transformer) -> list[ParameterRow]:
    """The parts of `model` that hold parameters, in the order in which a token meets them.

    docs/notation.md explains the symbols in the formulas.
    """
    width = embedding_symbol(model)
    table = [_embedding("token embedding", f"vocab_size {width}", symbols(model))]
    if model.embedding.segments is not None:
        dims = symbols(model) | {"segments": model.embedding.segments}
        table.append(_embedding("segment embedding", f"segments {width}", dims))
    for named_stack in stacks(model):
        table += _stack(model, named_stack)
    return table + head_rows(model)


def parameter_count(model: Transformer) -> int:
    """All parameters of `model`; a tied head counts once."""
    return sum(row.count for row in parameters(model))


def symbols(model: Transformer, named_stack: NamedStack | None = None) -> dict[str, int]:
    """The values of the formulas' symbols for a model and one of its stacks."""
    dims = {
        "vocab_size": model.rows,
        "context_length": model.context_length,
        "T": model.context_length,
        "d_model": model.d_model,
        "d_e": model.token_width,
    }
    if named_stack is None:
        return dims
    return dims | {
        "n_layers": named_stack.stack.n_layers,
        "d_ff": named_stack.stack.feed_forward.d_ff,
    }


def embedding_symbol(model: Transformer) -> str:
    """The symbol of the features of a token's vector."""
    return "d_model" if model.embedding.projection is None else "d_e"


def head_symbol(model: Transformer) -> str:
    """The symbol of the features that the matrix of the head reads."""
    return embedding_symbol(model) if model.head_width == model.token_width else "d_model"


def _input_symbol(model: Transformer, width: int) -> str:
    """The symbol of a width before the first block."""
    return embedding_symbol(model) if width == model.token_width else "d_model"


def attention_row(model: Transformer, named_stack: NamedStack, layers: LayerGroup) -> ParameterRow:
    """The attention of a group of equal layers."""
    dims = symbols(model, named_stack) | attention_symbols(layers.attention)
    part = attention_part(layers.attention, named_stack.stack)
    return _layers(layers.name, layers.layers, part, dims, layers.number)


def cross_attention_row(model: Transformer, named_stack: NamedStack) -> ParameterRow | None:
    """The cross-attention of a stack; None if it has none."""
    cross, n = named_stack.stack.cross_attention, named_stack.stack.n_layers
    if cross is None:
        return None
    dims = symbols(model, named_stack) | attention_symbols(cross)
    return _layers("cross attention", n, attention_part(cross, named_stack.stack), dims)


def feed_forward_row(model: Transformer, named_stack: NamedStack) -> ParameterRow:
    """The feed-forward of all layers of a stack."""
    part = feed_forward_part(named_stack.stack.feed_forward, named_stack.stack)
    name, dims = f"{named_stack.prefix}feed-forward", symbols(model, named_stack)
    return _layers(name, named_stack.stack.n_layers, part, dims)


def _stack(model: Transformer, named_stack: NamedStack) -> list[ParameterRow]:
    stack, prefix, dims = named_stack.stack, named_stack.prefix, symbols(model, named_stack)
    table = _positions(model, named_stack, stack.positions)
    if stack.embedding_positions is not None:
        table += _positions(model, named_stack, stack.embedding_positions)
    if stack.input_norm is not None:
        part = norm_part(stack.input_norm, _input_symbol(model, model.input_norm_width))
        table.append(_part_row(f"{prefix}input norm", part, dims))
    projection = model.embedding.projection
    if projection is not None:
        part = projection_part(projection, stack)
        table.append(_part_row(f"{prefix}embedding projection", part, dims))
    table += [attention_row(model, named_stack, layers) for layers in group_layers(named_stack)]
    cross = cross_attention_row(model, named_stack)
    table += [] if cross is None else [cross]
    table.append(feed_forward_row(model, named_stack))
    per_norm, n = norm_part(stack.norm).vectors, block_norms(stack)
    norms = _part_row(f"{prefix}norms of the blocks", Part("0", f"{n} n_layers ({per_norm})"), dims)
    table.append(
        ParameterRow(norms.part, n * stack.n_layers, norms.count, norms.formula, norms.hidden)
    )
    if stack.final_norm:
        table.append(_part_row(f"{prefix}final norm", norm_part(stack.norm), dims))
    return table


def _positions(
    model: Transformer, named_stack: NamedStack, positions: Positions
) -> list[ParameterRow]:
    prefix = named_stack.prefix
    dims = symbols(model, named_stack) | attention_symbols(named_stack.stack.pattern[0])
    match positions:
        case Learned():
            formula = f"context_length {_input_symbol(model, model.positions_width)}"
            return [_embedding(f"{prefix}position embedding", formula, dims)]
        case BucketedBias(n_buckets=n):
            dims |= {"n_buckets": n}
            return [_embedding(f"{prefix}position bias", "n_buckets h", dims)]
        case ShawRelative(max_distance=furthest, values=values):
            formula = f"(2 max_distance + 1) {'(d_k + d_v)' if values else 'd_k'}"
            dims |= {"max_distance": furthest}
            return [_embedding(f"{prefix}relative positions", formula, dims)]
        case Disentangled(n_buckets=n, norm=norm):
            formula = total("n_buckets d_model", "0" if norm is None else norm_part(norm).vectors)
            dims |= {"n_buckets": n}
            return [_embedding(f"{prefix}relative positions", formula, dims)]
        case NoPositions() | Sinusoidal() | Rotary() | ALiBi():
            return []
        case _:
            assert_never(positions)


def head_rows(model: Transformer) -> list[ParameterRow]:
    """What reads the last states; a head that is the embedding is counted there."""
    dims, table = symbols(model), list[ParameterRow]()
    if model.pooler:
        table.append(_part_row("pooler", Part("d_model^2", "d_model"), dims))
    match model.head:
        case NoHead():
            return table
        case ClassificationHead():
            transform = model.head.transform
            if transform is not None:
                part = transform_part(transform, "d_model")
                table.append(_part_row("classifier transform", part, dims))
            return [*table, _classifier(model.head, dims)]
        case LanguageHead():
            return table + _language_head(model, model.head)
        case _:
            assert_never(model.head)


def _classifier(head: ClassificationHead, dims: Symbols) -> ParameterRow:
    dims = {**dims, "n_classes": len(head.names)}
    formula = total("n_classes d_model", "n_classes" if head.bias else "0")
    return _embedding("classifier", formula, dims)


def _language_head(model: Transformer, head: LanguageHead) -> list[ParameterRow]:
    dims, table = symbols(model), list[ParameterRow]()
    if head.transform is not None:
        part = transform_part(head.transform, embedding_symbol(model))
        table.append(_part_row("head transform", part, dims))
    if not model.embedding.tied:
        table.append(_embedding("head", f"vocab_size {head_symbol(model)}", dims))
    if head.bias and not head.fixed_bias:
        table.append(_part_row("head bias", Part("0", "vocab_size"), dims))
    return table


def _embedding(name: str, formula: str, dims: Symbols) -> ParameterRow:
    return ParameterRow(name, 1, evaluate_int(formula, dims), formula)


def _part_row(name: str, part: Part, dims: Symbols) -> ParameterRow:
    hidden = evaluate_int(part.matrices, dims)
    return ParameterRow(name, 1, evaluate_int(part.formula, dims), part.formula, hidden)


def _layers(
    name: str, layers: int, part: Part, dims: Symbols, number: str = "n_layers"
) -> ParameterRow:
    formula = times(layers, number, part.formula)
    hidden = layers * evaluate_int(part.matrices, dims)
    return ParameterRow(name, layers, evaluate_int(formula, dims), formula, hidden)
