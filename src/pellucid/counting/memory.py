"""What lies in memory while a model is trained, in bytes, by part, with the formula.

Comes in: a `config.Transformer`, an optimiser and the shape of a step. Goes out: rows of bytes. It
does not know any machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, assert_never

from pellucid.config import (
    SGD,
    Adam,
    AdamW,
    Alternating,
    GatedMLP,
    LastLayers,
    LinearAttention,
    MultiHead,
    Muon,
    NeuralMemory,
    OneAttention,
    Optimiser,
    SandwichNorm,
    ShawRelative,
    Trained,
    Transformer,
)
from pellucid.counting.flops import within
from pellucid.counting.formulas import times, total, whole
from pellucid.counting.layers import NamedStack, alike, stacks
from pellucid.counting.parameters import parameter_count, symbols
from pellucid.counting.trained import Moving, moving

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """What lies in memory while training, in bytes, and the formula."""

    part: str
    n_bytes: int
    formula: str


def memory(
    model: Transformer,
    optimiser: Optimiser,
    *,
    sequences: int,
    precision: Precision,
    trained: Trained | None = None,
    asked: int = 0,
) -> list[MemoryRow]:
    """Bytes while one micro-batch of `sequences` full contexts is trained on.

    Weights, gradients and moments are float32 ("master" weights); activations are what the
    backward pass needs, in the precision of the matrix products, with a loss that never forms all
    logits. Attention is fused, and forms no scores, except where no fused kernel can (soft caps,
    sinks, vectors added to values): there scores and weights are counted, h T each per token.
    Linear attention and memories leave scores within a chunk, and states between chunks.
    With an encoder and a decoder each reads that many tokens.

    What is not `trained` has no gradient and no moments. `asked` are the parameters of other models
    that are asked and not trained: a teacher, a frozen reference. Where the last blocks alone are
    trained, the backward pass ends there.
    """
    n, moves = parameter_count(model), moving(model, trained)
    moments, moments_formula = _moments(optimiser, moves)
    all_of_them = "(parameters + those of adapters)" if moves.added else "parameters"
    those = "parameters" if trained is None else f"({moves.formula})"
    rows = [
        MemoryRow("weights", 4 * (n + moves.added), f"4 bytes x {all_of_them}"),
        MemoryRow("gradients", 4 * moves.trained, f"4 bytes x {those}"),
        MemoryRow("optimiser", moments, moments_formula),
    ]
    if asked:
        rows.append(
            MemoryRow("asked", 4 * asked, "4 bytes x parameters of the model that is asked")
        )
    tokens, width = sequences * model.context_length, bytes_of(precision)
    for named in _backward(model, trained):
        per_token, formula = _activations(model, named)
        rows.append(
            MemoryRow(
                f"{named.prefix}activations",
                tokens * per_token * width,
                f"{width} bytes x tokens x ({formula})",
            )
        )
    return rows


def bytes_of(precision: Precision) -> int:
    """How many bytes a number takes."""
    return 2 if precision == "bfloat16" else 4


def scores_are_formed(attention: OneAttention, named: NamedStack) -> bool:
    """Whether attention goes step by step, with a score for every query and key in memory."""
    if not isinstance(attention, MultiHead):
        return False
    adds_values = isinstance(named.stack.positions, ShawRelative) and named.stack.positions.values
    return attention.soft_cap is not None or attention.sinks or adds_values


def _moments(optimiser: Optimiser, moves: Moving) -> tuple[int, str]:
    n = moves.trained
    match optimiser:
        case AdamW() | Adam():
            return 8 * n, "2 moments x 4 bytes"
        case SGD(momentum=0.0):
            return 0, "none without momentum"
        case SGD():
            return 4 * n, "momentum x 4 bytes"
        case Muon():
            return (
                8 * n - 4 * moves.hidden,
                "momentum x 4 bytes (hidden matrices), 2 moments (the rest)",
            )
        case _:
            assert_never(optimiser)


def _backward(model: Transformer, trained: Trained | None) -> list[NamedStack]:
    """The stacks as far down as the backward pass goes: not below the last block that moves."""
    if not isinstance(trained, LastLayers):
        return stacks(model)
    *_, top = stacks(model)
    if not trained.count:
        return []
    last = top.stack.layers[-trained.count :]
    kinds = last[0] if len(set(last)) == 1 else Alternating(layers=last)
    return [replace(top, stack=replace(top.stack, n_layers=len(last), attention=kinds))]


def _activations(model: Transformer, named: NamedStack) -> tuple[int, str]:
    """What a token leaves behind in a stack for the backward pass: how many numbers, and how."""
    stack, length = named.stack, model.context_length
    known = symbols(model, named)
    formulas, count = list[str](), 0
    for layers in alike(named):
        heads = total("h (d_k + d_v) + h_kv (d_k + d_v)", _beside_heads(layers.attention, named))
        formulas.append(times(layers.layers, layers.number, heads))
        count += whole(formulas[-1], known | within(layers.attention, length))
    if stack.cross_attention is not None:
        formulas.append("n_layers (2 d_model + h (d_k + d_v) + h_kv (d_k + d_v))")
        count += whole(formulas[-1], known | within(stack.cross_attention, length))
    # what goes into a norm, and what comes out of it
    norms = 8 if isinstance(stack.residual, SandwichNorm) else 4
    inner = 3 if isinstance(stack.feed_forward, GatedMLP) else 2
    formulas.append(f"n_layers ({norms} d_model + {inner} d_ff)")
    return count + whole(formulas[-1], known), total(*formulas)


def _beside_heads(attention: OneAttention, named: NamedStack) -> str:
    match attention:
        case MultiHead():
            return "2 h T" if scores_are_formed(attention, named) else "0"
        case LinearAttention():
            return "h (c + d_k d_v / c)" if named.causal else "0"
        case NeuralMemory(frozen=True):
            return "h (d_k + d_v)"
        case NeuralMemory():
            return "2 h (d_k + d_v) + h (2 c + 3 d_k d_v / c)"
        case _:
            assert_never(attention)
