"""How many weights are trained if not all of them are, in closed form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import assert_never

from pellucid.config import (
    MLP,
    ClampedGatedMLP,
    DenseFeedForward,
    Experts,
    GatedMLP,
    LanguageHead,
    LastLayers,
    LatentAttention,
    Layer,
    LinearAttention,
    LoRA,
    MultiHead,
    NeuralMemory,
    OneAttention,
    OneFeedForward,
    Stack,
    Trained,
    Transformer,
)
from pellucid.counting.formulas import Symbols, evaluate_int, total
from pellucid.counting.layers import (
    NamedStack,
    attention_symbols,
    feed_forward_symbols,
    layer_copies,
    stacks,
)
from pellucid.counting.parameters import (
    embedding_symbol,
    head_rows,
    parameter_count,
    parameters,
    symbols,
)
from pellucid.counting.part_formulas import (
    attention_part,
    block_norms,
    distance_projections,
    feed_forward_part,
    gate_rows,
    norm_part,
)

#: Layers whose rows are the vectors of experts: Muon does not orthogonalise them.
_ROUTERS = (".router", ".shared_gate")
#: A linear layer: its path, its inputs and its outputs.
_Layer = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class TrainedCounts:
    """Counts of weights.

    Attributes:
        trained: Weights that are trained.
        hidden: The part of `trained` in hidden matrices.
        added: Weights that adapters add.
        formula: For `trained`.
    """

    trained: int
    hidden: int
    added: int
    formula: str


def count_trained(model: Transformer, trained: Trained | None) -> TrainedCounts:
    """How many weights of `model` are trained; all of them if `trained` is None."""
    match trained:
        case None:
            n = parameter_count(model)
            return TrainedCounts(n, sum(row.hidden for row in parameters(model)), 0, "parameters")
        case LastLayers(count=count):
            return _last_layers(model, count)
        case LoRA():
            return _adapters(model, trained)
        case _:
            assert_never(trained)


def _last_layers(model: Transformer, count: int) -> TrainedCounts:
    named_stack = stacks(model)[-1]
    stack, dims = named_stack.stack, symbols(model, named_stack)
    n = hidden = 0
    for owner in _last_owners(stack, count):
        attention, feed_forward = stack.layers[owner].attention, stack.layers[owner].feed_forward
        parts = [(attention_part(attention, stack), dims | attention_symbols(attention))]
        if (cross := stack.cross_attention) is not None:
            parts.append(
                (attention_part(cross, stack, crosses=True), dims | attention_symbols(cross))
            )
        inner = dims | feed_forward_symbols(feed_forward)
        parts.append((feed_forward_part(feed_forward, stack), inner))
        n += sum(evaluate_int(part.formula, part_dims) for part, part_dims in parts)
        norms = block_norms(stack) - (owner == 0 and not stack.first_attention_norm)
        n += norms * evaluate_int(norm_part(stack.norm).vectors, dims)
        hidden += sum(evaluate_int(part.matrices, part_dims) for part, part_dims in parts)
    n += evaluate_int(norm_part(stack.norm).vectors, dims) if stack.final_norm else 0
    head_parameters = head_rows(model)
    n, hidden = (
        n + sum(row.count for row in head_parameters),
        hidden + sum(row.hidden for row in head_parameters),
    )
    return TrainedCounts(n, hidden, 0, f"the last {count} blocks, the final norm and the head")


def _last_owners(stack: Stack, count: int) -> list[int]:
    """The layers whose weights the last `count` layers use, each once."""
    return sorted(set(stack.owners[stack.n_layers - count :]))


def _adapters(model: Transformer, lora: LoRA) -> TrainedCounts:
    terms = Counter[str]()
    n = 0
    for path, inputs, outputs, dims in _linear_layers(model):
        if any(_is_meant(path, target) for target in lora.targets):
            term = total(inputs, outputs)
            terms[term] += 1
            n += lora.rank * evaluate_int(term, dims)
    formula = f"rank ({total(*(f'{times} ({term})' for term, times in terms.items()))})"
    new = [row for row in head_rows(model) if row.part in ("classifier", "classifier transform")]
    formula = total(formula, *(row.formula for row in new))
    trained, hidden = sum(row.count for row in new), sum(row.hidden for row in new)
    return TrainedCounts(n + trained, n + hidden, n, formula)


def matrix_shapes(model: Transformer) -> Counter[tuple[int, int]]:
    """How many hidden matrices of each shape the blocks have, as (outputs, inputs)."""
    shapes = Counter[tuple[int, int]]()
    for named_stack in stacks(model):
        dims = symbols(model, named_stack)
        for layer, n in layer_copies(named_stack.stack).items():
            for leaf, inputs, outputs in _in_block(named_stack.stack, layer):
                if leaf.endswith(_ROUTERS):
                    continue
                leaf_symbols = {**dims, **_symbols_of(leaf, named_stack.stack, layer)}
                shape = evaluate_int(outputs, leaf_symbols), evaluate_int(inputs, leaf_symbols)
                shapes[shape] += n
    return shapes


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix that the tokens of a stack are multiplied with.

    Attributes:
        part: Its place in a block.
        inputs: Its columns.
        outputs: Its rows.
        layers: How many layers have such a product.
        share: The share of the tokens; an expert gets few of them.
    """

    part: str
    inputs: int
    outputs: int
    layers: int
    share: float = 1.0


def block_products(model: Transformer, named_stack: NamedStack) -> list[Product]:
    """The products of all blocks of a stack, in the order in which a layer computes them."""
    dims, stack = symbols(model, named_stack), named_stack.stack
    products: list[Product] = []
    for layer, n in stack.layer_counts.items():
        for leaf, inputs, outputs in _in_block(stack, layer):
            sizes = {**dims, **_symbols_of(leaf, stack, layer)}
            is_expert = leaf.startswith("feed_forward.experts.")
            share = sizes["n_active"] / sizes["n_experts"] if is_expert else 1.0
            shape = evaluate_int(inputs, sizes), evaluate_int(outputs, sizes)
            products.append(Product(leaf, *shape, layers=n, share=share))
    return products


def _symbols_of(leaf: str, stack: Stack, layer: Layer) -> Symbols:
    """The values of the symbols of a part of a block."""
    if leaf.startswith("attention."):
        return attention_symbols(layer.attention)
    if leaf.startswith("feed_forward."):
        return feed_forward_symbols(layer.feed_forward)
    if stack.cross_attention is not None and leaf.startswith("cross_attention."):
        return attention_symbols(stack.cross_attention)
    return {}


def _is_meant(path: str, target: str) -> bool:
    """Whether a target means the layer at `path`; one without a dot is the last part of it."""
    return fnmatchcase(path if "." in target else path.rpartition(".")[2], target)


def _linear_layers(model: Transformer) -> Iterator[tuple[str, str, str, Symbols]]:
    """Every linear layer that can have an adapter, with the values of its symbols."""
    for named_stack in stacks(model):
        side, dims = "decoder" if named_stack.causal else "encoder", symbols(model, named_stack)
        for place in sorted(set(named_stack.stack.owners)):
            path, layer = f"{side}.blocks.{place}", named_stack.stack.layers[place]
            for leaf, inputs, outputs in _in_block(named_stack.stack, layer):
                leaf_symbols = {**dims, **_symbols_of(leaf, named_stack.stack, layer)}
                yield f"{path}.{leaf}", inputs, outputs, leaf_symbols
        if model.embedding.projection is not None:
            yield f"{side}.input_projection", "d_e", "d_model", dims
    dims = symbols(model)
    if isinstance(model.head, LanguageHead) and model.head.transform is not None:
        yield "head_transform.dense", "d_model", embedding_symbol(model), dims
    if model.pooler:
        yield "pooler", "d_model", "d_model", dims


def _in_block(stack: Stack, layer: Layer) -> Iterator[_Layer]:
    for leaf, inputs, outputs in _in_attention(layer.attention):
        yield f"attention.{leaf}", inputs, outputs
    for leaf in distance_projections(stack.positions):
        yield f"attention.{leaf}", "d_model", "h d_k" if leaf == "position_query" else "h_kv d_k"
    if stack.cross_attention is not None:
        for leaf, inputs, outputs in _in_attention(stack.cross_attention):
            yield f"cross_attention.{leaf}", inputs, outputs
    for leaf, inputs, outputs in _in_feed_forward(layer.feed_forward):
        yield f"feed_forward.{leaf}", inputs, outputs


def _in_attention(attention: OneAttention) -> Iterator[_Layer]:
    match attention:
        case MultiHead() | LinearAttention():
            yield "query", "d_model", "h d_k"
            yield "key", "d_model", "h_kv d_k"
            yield "value", "d_model", "h_kv d_v"
            yield "output", "h d_v", "d_model"
            if isinstance(attention, MultiHead) and attention.output_gate is not None:
                yield "output_gate", "d_model", gate_rows(attention)
        case LatentAttention(d_query_latent=d_query):
            if d_query is not None:
                yield "query_latent", "d_model", "d_q"
            yield "query", "d_model" if d_query is None else "d_q", "h d_k"
            yield "latent", "d_model", "d_c"
            yield "rotated_key", "d_model", "d_r"
            yield "key", "d_c", "h (d_k - d_r)"
            yield "value", "d_c", "h d_v"
            yield "output", "h d_v", "d_model"
        case NeuralMemory():
            for side in ("", "memory_"):
                for leaf in ("query", "key", "value"):
                    yield f"{side}{leaf}", "d_model", "h d_k"
            for gate in ("learning_rate", "persistence", "forgetting", "mixing"):
                yield f"{gate}.linear", "d_model", "h"
            yield "output", "h d_k", "d_model"
        case _:
            assert_never(attention)


def _in_feed_forward(feed_forward: OneFeedForward) -> Iterator[_Layer]:
    match feed_forward:
        case MLP() | GatedMLP() | ClampedGatedMLP():
            yield from _in_dense(feed_forward, "", "d_ff")
        case Experts():
            for number in range(feed_forward.n_experts):
                yield from _in_dense(feed_forward.expert, f"experts.{number}.", "d_ff")
            yield "router", "d_model", "n_experts"
            if feed_forward.shared is not None:
                yield from _in_dense(feed_forward.shared, "shared.", "d_shared")
            if feed_forward.shared_gate:
                yield "shared_gate", "d_model", "1"
        case _:
            assert_never(feed_forward)


def _in_dense(feed_forward: DenseFeedForward, path: str, width: str) -> Iterator[_Layer]:
    match feed_forward:
        case MLP():
            pass
        case GatedMLP() | ClampedGatedMLP():
            yield f"{path}gate", "d_model", width
        case _:
            assert_never(feed_forward)
    yield f"{path}up", "d_model", width
    yield f"{path}down", width, "d_model"
