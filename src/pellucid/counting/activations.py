"""Activations that a forward pass keeps for the backward pass, by stack, in closed form.

The residual stream is always float32: the input of a norm takes 4 bytes a number. Outputs of norms,
heads and feed-forward layers have the precision of matrix products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, assert_never

from pellucid.config import (
    MLP,
    ClampedGatedMLP,
    DenseFeedForward,
    Disentangled,
    Experts,
    GatedMLP,
    LastLayers,
    LatentAttention,
    LinearAttention,
    MultiHead,
    NeuralMemory,
    OneAttention,
    OneFeedForward,
    OnePositions,
    ShawRelative,
    Stack,
    Trained,
    Transformer,
)
from pellucid.counting.flops import window_flops
from pellucid.counting.formulas import evaluate_int, times, total
from pellucid.counting.layers import (
    NamedStack,
    feed_forward_symbols,
    group_feed_forwards,
    last_layers,
    stacks,
)
from pellucid.counting.parameters import symbols
from pellucid.counting.part_formulas import block_norms

Precision = Literal["float32", "bfloat16"]
#: How attention is computed: by a fused kernel, by products, or by a GPU's, which forms no scores.
Kernel = Literal["fused", "products", "flash"]
CPUKernel = Literal["fused", "products"]
#: What the backward pass computes again: nothing; everything but products of matrices and
#: attention; also every second product (torchtitan's rule); or every block, from its input.
Recompute = Literal["none", "selective", "alternate", "full"]

#: The longest text and the most bytes of weights over all layers for the kernel "products".
_LONGEST, _MOST_WEIGHTS = 512, 2**28


class Pass(NamedTuple):
    """A forward pass: its number of sequences, and their lengths in each stack."""

    sequences: int
    encoder: int
    decoder: int

    def length(self, named_stack: NamedStack) -> int:
        """How many tokens of each sequence a stack reads."""
        return self.decoder if named_stack.causal else self.encoder

    def tokens(self, named_stack: NamedStack) -> int:
        """How many tokens a stack reads."""
        return self.sequences * self.length(named_stack)


class StackActivations(NamedTuple):
    """The activations of a stack: bytes, and the formula."""

    prefix: str
    n_bytes: int
    formula: str


def bytes_of(precision: Precision) -> int:
    """Bytes per number."""
    return 2 if precision == "bfloat16" else 4


def choose_kernel(model: Transformer, precision: Precision, *, sequences: int) -> CPUKernel:
    """The faster attention kernel on a CPU for a pass; `pellucid.training.kernels` says why.

    Args:
        model: The model.
        precision: Of matrix products.
        sequences: How many full contexts the pass has.
    """
    length = model.context_length
    heads = sum(
        n * layer.attention.n_heads
        for stack in model.stacks
        for layer, n in stack.layer_counts.items()
        if isinstance(layer.attention, MultiHead | LatentAttention)
    )
    crosses = model.encoder is not None and model.decoder is not None
    has_kernels = heads > 0 or crosses  # other kinds of attention have one kernel
    short = length <= _LONGEST and 2 * sequences * heads * length**2 <= _MOST_WEIGHTS
    return "products" if has_kernels and precision == "bfloat16" and short else "fused"


def activations(
    model: Transformer,
    size: Pass,
    *,
    precision: Precision,
    kernel: Kernel = "fused",
    trained: Trained | None = None,
    recompute: Recompute = "none",
    tensor: int = 1,
    residual: int = 4,
) -> list[StackActivations]:
    """The activations of each stack that the backward pass needs.

    A fused kernel forms no scores. The kernel "products" has h T of them per token. So has
    attention that no fused kernel computes: with soft caps, sinks, vectors on values, dropout.

    Args:
        model: The model.
        size: The pass.
        precision: Of matrix products.
        kernel: How attention is computed.
        trained: The weights that learn; None for all.
        recompute: What the backward pass computes again.
        tensor: How many devices share the heads and the units.
        residual: Bytes of a number of the residual stream.
    """
    retained: list[StackActivations] = []
    for named_stack in _stacks_backward(model, trained):
        wide = _wide(named_stack, recompute)
        narrow = _narrow(named_stack, kernel, size.length(named_stack), recompute)
        dims = symbols(model, named_stack) | {"T": size.length(named_stack)}
        width = bytes_of(precision)
        numbers = sum(evaluate_int(term, dims | _shared(sizes, tensor)) for term, sizes in narrow)
        per_token = residual * evaluate_int(wide, dims) + width * numbers
        terms = total(*(term for term, _ in narrow))
        formula = f"tokens x ({residual} bytes x ({wide}) + {width} bytes x ({terms}))"
        if tensor > 1:
            formula += f", heads and units / {tensor}"
        retained.append(
            StackActivations(named_stack.prefix, size.tokens(named_stack) * per_token, formula)
        )
    return retained


def scores_are_formed(attention: OneAttention, positions: OnePositions) -> bool:
    """Whether attention has a score for every query and key in memory."""
    if not isinstance(attention, MultiHead):
        return False
    adds_values = isinstance(positions, ShawRelative) and positions.values
    return attention.soft_cap is not None or attention.sinks or adds_values


def _wide(named_stack: NamedStack, recompute: Recompute) -> str:
    """Numbers of the residual stream per token: inputs of norms, or of blocks; the embedding if
    dropout keeps it.
    """
    stack = named_stack.stack
    ends = "2 d_model" if stack.input_dropout else "d_model"
    inputs = block_norms(stack) if recompute == "none" else 1
    return total(f"{inputs} n_layers (d_model)", ends)


#: The symbols that are divided among devices that share products.
_SHARED = ("h", "h_kv", "d_ff", "d_shared")


def _shared(dims: dict[str, int], tensor: int) -> dict[str, int]:
    return {name: n // tensor if name in _SHARED else n for name, n in dims.items()}


#: A formula, and the values of the symbols that only one kind of layer has.
_Term = tuple[str, dict[str, int]]


def _narrow(
    named_stack: NamedStack, kernel: Kernel, length: int, recompute: Recompute
) -> list[_Term]:
    """Numbers per token in the precision of products: of each attention, and of the blocks."""
    stack = named_stack.stack
    if recompute == "full":
        return []
    terms: list[_Term] = []
    for (attention, extra), n in _attention_counts(named_stack, kernel).items():
        keys = "h_kv d_v" if recompute == "alternate" else "h_kv (d_k + d_v)"
        heads = total(f"h (d_k + d_v) + {keys}", extra)
        if kernel == "products" and isinstance(attention, MultiHead | LatentAttention):
            heads = total(heads, "h T")
        number = "n_layers" if n == stack.n_layers else ""
        terms.append((times(n, number, heads), window_flops(attention, length)))
    if (cross := stack.cross_attention) is not None:
        formula = "n_layers (h (d_k + d_v) + h_kv (d_k + d_v))"
        terms.append((formula, window_flops(cross, length)))
    masks = _sublayers(stack) if stack.dropout else 0
    products = 1 if recompute == "alternate" else _sublayers(stack)
    outer = block_norms(stack) + masks if recompute == "none" else products
    norms = f"{outer} d_model"
    kinds = group_feed_forwards(named_stack)
    for layers in kinds:
        inner, dims = _saved_inside(layers.kind, recompute), feed_forward_symbols(layers.kind)
        terms.append((times(layers.layers, layers.number, f"{norms} + {inner}"), dims))
    return terms


def _attention_counts(named_stack: NamedStack, kernel: Kernel) -> Counter[tuple[OneAttention, str]]:
    """How many layers have each attention, and the numbers that it keeps besides its vectors."""
    counts = Counter[tuple[OneAttention, str]]()
    for layer, n in named_stack.stack.layer_counts.items():
        attention = layer.attention
        if kernel == "flash" and isinstance(attention, MultiHead | LatentAttention):
            attention = replace(attention, dropout=0.0)
        extra = _extra_numbers(attention, layer.positions, causal=named_stack.causal)
        counts[layer.attention, extra] += n
    return counts


def _saved_inside(feed_forward: OneFeedForward, recompute: Recompute) -> str:
    """Numbers of a token that the backward pass needs: before and after each operation.

    With recomputation only the outputs of products stay; a mixture of experts stays as it is.
    """
    if recompute != "none" and not isinstance(feed_forward, Experts):
        has_gate = isinstance(feed_forward, GatedMLP | ClampedGatedMLP)
        return "2 d_ff" if has_gate and recompute == "selective" else "1 d_ff"
    match feed_forward:
        case MLP() | GatedMLP() | ClampedGatedMLP():
            return f"{_saved_units(feed_forward)} d_ff"
        case Experts(expert=expert, shared=shared):
            # the tokens of each expert side by side, their outputs, and the router's softmax
            mixture = f"n_active ({_saved_units(expert)} d_ff + 2 d_model) + 3 n_experts"
            common = "0" if shared is None else f"{_saved_units(shared)} d_shared"
            return total(mixture, common, "d_model" if feed_forward.shared_gate else "0")
        case _:
            assert_never(feed_forward)


def _saved_units(feed_forward: DenseFeedForward) -> int:
    """Vectors of one number for each unit."""
    match feed_forward:
        case MLP():
            return 2
        case GatedMLP():
            return 4
        case ClampedGatedMLP():
            return 7
        case _:
            assert_never(feed_forward)


def _sublayers(stack: Stack) -> int:
    return 2 if stack.cross_attention is None else 3


def _extra_numbers(attention: OneAttention, positions: OnePositions, *, causal: bool) -> str:
    match attention:
        case MultiHead():
            weights = "3 h T" if attention.dropout else "0"
            if scores_are_formed(attention, positions):
                weights = "2 h T"
            # a bias that depends on the query: one number for each query and key of each text
            bias = f"{positions.n_terms} h T" if isinstance(positions, Disentangled) else "0"
            return total(weights, _gate_numbers(attention), bias)
        case LatentAttention(dropout=dropout, d_query_latent=d_query):
            latents = "2 d_c" if d_query is None else "2 d_c + 2 d_q"
            return total(latents, "3 h T" if dropout else "0")
        case LinearAttention():
            return "h (c + d_k d_v / c)" if causal else "0"
        case NeuralMemory(frozen=True):
            return "h (d_k + d_v)"
        case NeuralMemory():
            return "2 h (d_k + d_v) + h (2 c + 3 d_k d_v / c)"
        case _:
            assert_never(attention)


def _gate_numbers(attention: MultiHead) -> str:
    """The gates of a token's heads, spread over the features that they multiply."""
    match attention.output_gate:
        case None:
            return "0"
        case "heads":
            return "h (d_v + 1)"
        case "features":
            return "h d_v"


def _stacks_backward(model: Transformer, trained: Trained | None) -> Sequence[NamedStack]:
    """The stacks that the backward pass goes through: none below the lowest trained block."""
    if not isinstance(trained, LastLayers):
        return stacks(model)
    *_, top = stacks(model)
    if not trained.count:
        return []
    return [replace(top, stack=last_layers(top.stack, trained.count))]
