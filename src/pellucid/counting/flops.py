"""The FLOPs of a token, by part, with the formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pellucid.config import (
    ClassificationHead,
    Disentangled,
    LanguageHead,
    LatentAttention,
    LinearAttention,
    MultiHead,
    NeuralMemory,
    OneAttention,
    Transformer,
)
from pellucid.counting.formulas import Symbols, evaluate, times, total
from pellucid.counting.layers import (
    LayerGroup,
    NamedStack,
    attention_symbols,
    group_feed_forwards,
    group_layers,
    stacks,
)
from pellucid.counting.parameters import (
    ParameterRow,
    attention_row,
    cross_attention_row,
    embedding_symbol,
    feed_forward_row,
    head_symbol,
    symbols,
)


@dataclass(frozen=True, slots=True)
class FlopRow:
    """A part, its FLOPs per token in each direction, and the formula of the forward pass.

    Attributes:
        part: the name of the part.
        forward: FLOPs per token.
        backward: FLOPs per token.
        formula: of the forward pass.
    """

    part: str
    forward: int
    backward: int
    formula: str


def flops_per_token(model: Transformer) -> list[FlopRow]:
    """Multiply-adds (2 FLOPs each) for one token at full context; backward is twice the forward.

    A matrix costs 2 FLOPs per parameter and token. Scores and weighted sums each cost 2 FLOPs per
    feature of a head and visible key; a causal query sees (T + 1) / 2 keys on average. An
    encoder-decoder counts one token of each text, both of T tokens. Element-wise operations (norms,
    activations, positions, the softmax) do not count.

    Source: Kaplan et al. 2020, "Scaling Laws for Neural Language Models", table 1.
    """
    rows = [row for named_stack in stacks(model) for row in _stack(model, named_stack)]
    return rows + _head(model)


def mixing(attention: OneAttention, *, causal: bool) -> str:
    """FLOPs per token and layer for mixing tokens: scores, sums, states.

    Causal linear attention and memories read a text in chunks of c. Within a chunk they use scores;
    across chunks they read and write a state of d_k d_v numbers per head. A memory and its momentum
    are both read and written, and the memory's error is computed: 2 d_k d_v each. The decays of all
    pairs of tokens in a chunk are multiplied too.
    """
    match attention:
        case MultiHead(window=window):
            return _attention_flops(visible_keys(causal=causal, window=window is not None))
        case LatentAttention():
            return _attention_flops(visible_keys(causal=causal, window=False))
        case LinearAttention():
            memory_product = "4 h d_k d_v"
            return (
                total(_attention_flops("(c + 1) / 2"), memory_product) if causal else memory_product
            )
        case NeuralMemory(frozen=frozen):
            visible = _attention_flops(visible_keys(causal=causal, window=True))
            if frozen:
                return total(visible, "2 h d_k d_v")
            decays = "h (c + 1) (c + 2) / 3"
            return total(visible, _attention_flops("(c + 1) / 2"), "10 h d_k d_v", decays)
        case _:
            assert_never(attention)


def visible_keys(*, causal: bool, window: bool) -> str:
    """How many keys a query sees, on average over a text of T tokens."""
    if causal:
        return "(w - w (w - 1) / (2 T))" if window else "(T + 1) / 2"
    return "(2 w - 1 - w (w - 1) / T)" if window else "T"


def window_flops(attention: OneAttention, length: int) -> dict[str, int]:
    """The symbols of `attention` in a text of `length` tokens, which bounds window and chunk."""
    dims = attention_symbols(attention)
    return dims | {name: min(dims[name], length) for name in ("w", "c") if name in dims}


def _attention_flops(keys: str) -> str:
    return f"2 h (d_k + d_v) {keys}"


def _stack(model: Transformer, named_stack: NamedStack) -> list[FlopRow]:
    dims, length = symbols(model, named_stack), model.context_length
    rows: list[FlopRow] = []
    if model.embedding.projection is not None:
        rows.append(_row(f"{named_stack.prefix}embedding projection", "2 d_e d_model", dims))
    for layers in group_layers(named_stack):
        projections = attention_row(model, named_stack, layers)
        rows.append(_products(f"{layers.name} projections", projections))
        formula = times(
            layers.layers, layers.number, mixing(layers.kind, causal=named_stack.causal)
        )
        meets = "sums" if isinstance(layers.kind, LinearAttention) else "scores and sums"
        layer_dims = dims | window_flops(layers.kind, length)
        rows.append(_row(f"{layers.name} {meets}", formula, layer_dims))
        rows += _distances(named_stack, layers, dims)
    cross = cross_attention_row(model, named_stack)
    if cross is not None and named_stack.stack.cross_attention is not None:
        rows.append(_products("cross attention projections", cross))
        layer_dims = dims | window_flops(named_stack.stack.cross_attention, length)
        rows.append(
            _row(
                "cross attention scores and sums", f"n_layers ({_attention_flops('T')})", layer_dims
            )
        )
    for layers in group_feed_forwards(named_stack):
        rows.append(_products(layers.name, feed_forward_row(model, named_stack, layers)))
    return rows


def _distances(
    named_stack: NamedStack, layers: LayerGroup[OneAttention], dims: Symbols
) -> list[FlopRow]:
    """Products of content with the vectors of distances, whose own products are once a text."""
    positions = named_stack.stack.positions
    if not isinstance(positions, Disentangled):
        return []
    products = "2 h d_k n_buckets + 2 h d_k d_model n_buckets / T"
    formula = times(layers.layers, layers.number, f"{positions.n_terms - 1} ({products})")
    layer_dims = {**dims, **attention_symbols(layers.kind), "n_buckets": positions.n_buckets}
    return [_row(f"{layers.name} content and distance", formula, layer_dims)]


def _head(model: Transformer) -> list[FlopRow]:
    dims, rows = symbols(model), list[FlopRow]()
    if model.pooler:
        rows.append(_row("pooler, once a text", "2 d_model^2 / T", dims))
    if isinstance(model.head, LanguageHead):
        if model.head.transform is not None:
            rows.append(_row("head transform", f"2 {_square(embedding_symbol(model))}", dims))
        rows.append(_row("head", f"2 vocab_size {head_symbol(model)}", dims))
    if isinstance(model.head, ClassificationHead):
        dims |= {"n_classes": len(model.head.names)}
        if model.head.transform is not None:
            rows.append(_row("classifier transform, once a text", "2 d_model^2 / T", dims))
        rows.append(_row("classifier, once a text", "2 n_classes d_model / T", dims))
    return rows


def _square(width: str) -> str:
    return "d_model^2" if width == "d_model" else f"d_model {width}"


def _products(part: str, row: ParameterRow) -> FlopRow:
    formula = "2 x its parameters"
    if row.uses != row.times:
        formula += f", which {row.uses} layers use"
    if row.idle:
        formula += ", without the experts that a token does not use"
    return FlopRow(part, 2 * row.used, 4 * row.used, formula)


def _row(part: str, formula: str, dims: Symbols) -> FlopRow:
    forward = int(evaluate(formula, dims))
    return FlopRow(part, forward, 2 * forward, formula)
