"""How many parameters each part of a model has, in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, assert_never

from pellucid.config import (
    ALiBi,
    BucketedBias,
    ClassificationHead,
    Disentangled,
    LanguageHead,
    Learned,
    NoHead,
    NoPositions,
    OneAttention,
    OneFeedForward,
    OnePositions,
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
    feed_forward_symbols,
    group_feed_forwards,
    group_layers,
    n_owners,
    stacks,
)
from pellucid.counting.part_formulas import (
    Part,
    attention_part,
    block_norms,
    feed_forward_part,
    idle_formula,
    norm_part,
    projection_part,
    transform_part,
)


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A `part`, its `times`, the parameters of all its copies (`count`), and their `formula`.

    `hidden` is the part of `count` in hidden matrices: no embeddings, output head, gains or biases.
    `uses` counts the places that use the copies, `idle` the parameters that a token skips.
    """

    part: str
    times: int
    count: int
    formula: str
    hidden: int = 0
    uses: int = 1
    idle: int = 0

    @property
    def active(self) -> int:
        """The part of `count` that a token uses."""
        return self.count - self.idle

    @property
    def used(self) -> int:
        """`active` as if each place had weights of its own: what a token is multiplied with."""
        return self.active // self.times * self.uses


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


def active_parameter_count(model: Transformer) -> int:
    """The parameters of `model` without the experts that a token does not use."""
    return sum(row.active for row in parameters(model))


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
    return dims | {"n_layers": named_stack.stack.n_layers}


def embedding_symbol(model: Transformer) -> str:
    """The symbol of the features of a token's vector."""
    return "d_model" if model.embedding.projection is None else "d_e"


def head_symbol(model: Transformer) -> str:
    """The symbol of the features that the matrix of the head reads."""
    return embedding_symbol(model) if model.head_width == model.token_width else "d_model"


def _input_symbol(model: Transformer, width: int) -> str:
    """The symbol of a width before the first block."""
    return embedding_symbol(model) if width == model.token_width else "d_model"


def attention_row(
    model: Transformer, named_stack: NamedStack, layers: LayerGroup[OneAttention]
) -> ParameterRow:
    """The attention of a group of equal layers."""
    dims = symbols(model, named_stack) | attention_symbols(layers.kind)
    return _layers(layers, attention_part(layers.kind, named_stack.stack), dims)


def cross_attention_row(model: Transformer, named_stack: NamedStack) -> ParameterRow | None:
    """The cross-attention of a stack; None if it has none."""
    stack = named_stack.stack
    cross = stack.cross_attention
    if cross is None:
        return None
    dims = symbols(model, named_stack) | attention_symbols(cross)
    layers = LayerGroup("cross attention", cross, stack.n_layers, n_owners(stack), "n_layers")
    return _layers(layers, attention_part(cross, stack, crosses=True), dims)


def feed_forward_row(
    model: Transformer, named_stack: NamedStack, layers: LayerGroup[OneFeedForward]
) -> ParameterRow:
    """The feed-forward of a group of equal layers."""
    stack = named_stack.stack
    dims = symbols(model, named_stack) | feed_forward_symbols(layers.kind)
    row = _layers(layers, feed_forward_part(layers.kind, stack), dims)
    return replace(row, idle=row.times * evaluate_int(idle_formula(layers.kind, stack), dims))


def _stack(model: Transformer, named_stack: NamedStack) -> list[ParameterRow]:
    stack, prefix, dims = named_stack.stack, named_stack.prefix, symbols(model, named_stack)
    table = [row for scheme in stack.schemes for row in _positions(model, named_stack, scheme)]
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
    table += [
        feed_forward_row(model, named_stack, layers) for layers in group_feed_forwards(named_stack)
    ]
    table.append(_norms_of_blocks(model, named_stack))
    if stack.final_norm:
        table.append(_part_row(f"{prefix}final norm", norm_part(stack.norm), dims))
    return table


def _norms_of_blocks(model: Transformer, named_stack: NamedStack) -> ParameterRow:
    stack, per_norm = named_stack.stack, norm_part(named_stack.stack.norm).vectors
    n, owners = block_norms(stack), n_owners(stack)
    number = "n_layers" if owners == stack.n_layers else str(owners)
    without = 0 if stack.first_attention_norm else 1
    formula = f"{n} {number} ({per_norm})"
    if without:
        formula = f"({n} {number} - {without}) ({per_norm})"
    return ParameterRow(
        f"{named_stack.prefix}norms of the blocks",
        n * owners - without,
        evaluate_int(formula, symbols(model, named_stack)),
        formula,
        uses=n * stack.n_layers - without,
    )


def position_row_name(named_stack: NamedStack, scheme: OnePositions) -> str:
    """The name of a scheme's row of parameters; schemes of the same kind are numbered."""
    match scheme:
        case Learned():
            name = "position embedding"
        case BucketedBias():
            name = "position bias"
        case ShawRelative() | Disentangled():
            name = "relative positions"
        case NoPositions() | Sinusoidal() | Rotary() | ALiBi():
            name = "positions"
        case _:
            assert_never(scheme)
    same_kind = [other for other in named_stack.stack.schemes if type(other) is type(scheme)]
    number = f" {same_kind.index(scheme) + 1}" if len(same_kind) > 1 else ""
    return f"{named_stack.prefix}{name}{number}"


def _positions(
    model: Transformer, named_stack: NamedStack, scheme: OnePositions
) -> list[ParameterRow]:
    """The table of a scheme, if it has one; the layers that have it share it, or have one each."""
    stack = named_stack.stack
    layers = [layer for layer in stack.layers if layer.positions == scheme]
    attention = layers[0].attention if layers else stack.pattern[0]
    dims = symbols(model, named_stack) | attention_symbols(attention)
    name = position_row_name(named_stack, scheme)
    match scheme:
        case Learned(offset=offset):
            rows = f"(context_length + {offset})" if offset else "context_length"
            width = _input_symbol(model, model.positions_width)
            return [_embedding(name, f"{rows} {width}", dims)]
        case BucketedBias(n_buckets=n, per_layer=per_layer):
            dims = dims | {"n_buckets": n}
            if not per_layer:
                return [_embedding(name, "n_buckets h", dims)]
            number = "n_layers" if len(layers) == stack.n_layers else ""
            formula = times(len(layers), number, "n_buckets h")
            return [ParameterRow(name, len(layers), evaluate_int(formula, dims), formula)]
        case ShawRelative(max_distance=furthest, values=values):
            formula = f"(2 max_distance + 1) {'(d_k + d_v)' if values else 'd_k'}"
            return [_embedding(name, formula, dims | {"max_distance": furthest})]
        case Disentangled(n_buckets=n, norm=norm):
            formula = total("n_buckets d_model", "0" if norm is None else norm_part(norm).vectors)
            return [_embedding(name, formula, dims | {"n_buckets": n})]
        case NoPositions() | Sinusoidal() | Rotary() | ALiBi():
            return []
        case _:
            assert_never(scheme)


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


def _layers(layers: LayerGroup[Any], part: Part, dims: Symbols) -> ParameterRow:
    formula = times(layers.copies, layers.owned, part.formula)
    count, hidden = evaluate_int(formula, dims), layers.copies * evaluate_int(part.matrices, dims)
    return ParameterRow(layers.name, layers.copies, count, formula, hidden, layers.layers)
