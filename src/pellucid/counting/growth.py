"""How the cost of each kind of attention grows with the length of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, assert_never

from pellucid.config import (
    LatentAttention,
    LinearAttention,
    MultiHead,
    NeuralMemory,
    OneAttention,
    OnePositions,
    ShawRelative,
    Transformer,
    adds_to_scores,
)
from pellucid.counting.activations import Precision, bytes_of, scores_are_formed
from pellucid.counting.flops import mixing
from pellucid.counting.formulas import evaluate_int, times
from pellucid.counting.layers import (
    LayerGroup,
    NamedStack,
    attention_symbols,
    group_layers,
    stacks,
)


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """How a kind of attention grows with T tokens, and n tokens of the encoder's text.

    `work_formula` counts FLOPs of one layer over a whole text; `step` is the work of one more
    token. `cache_bytes_per_token` and `state_bytes` are for all `layers` together, and 0 in an
    encoder, which keeps nothing. `kept_formula` counts their numbers.

    Attributes:
        part: the kind of attention.
        work: how the work grows, such as "T^2".
        memory: how the memory grows.
        words: the same in a sentence.
    """

    part: str
    layers: int
    work: str
    work_formula: str
    memory: str
    step: str
    cache_bytes_per_token: int
    state_bytes: int
    kept_formula: str
    words: str


#: States are sums over a whole text, so they are always float32.
_STATE_BYTES = 4


class _Kind(NamedTuple):
    work: str
    step: str
    words: str


def growth(model: Transformer, *, precision: Precision) -> list[GrowthRow]:
    """How each kind of attention in `model` grows with the length of the text."""
    rows: list[GrowthRow] = []
    for named_stack in stacks(model):
        for layers in group_layers(named_stack):
            rows += _rows(layers, named_stack, precision)
        cross = named_stack.stack.cross_attention
        if cross is not None:
            rows.append(_cross_row(cross, named_stack.stack.n_layers, precision))
    return rows


def _rows(
    layers: LayerGroup[OneAttention], named_stack: NamedStack, precision: Precision
) -> list[GrowthRow]:
    """A row for equal attention; several if only some of its positions need all scores."""
    counts: dict[str, tuple[OnePositions, int]] = {}
    for layer, n in named_stack.stack.layer_counts.items():
        if layer.attention == layers.kind:
            squares = _squares(layers.kind, layer.positions)
            scheme, before = counts.get(squares, (layer.positions, 0))
            counts[squares] = (scheme, before + n)
    return [
        _row(
            layers.name if len(counts) == 1 else f"{layers.name}, {type(scheme).__name__}",
            layers.kind,
            n,
            named_stack,
            precision,
            squares,
        )
        for squares, (scheme, n) in counts.items()
    ]


def _row(
    part: str,
    attention: OneAttention,
    layers: int,
    named_stack: NamedStack,
    precision: Precision,
    squares: str,
) -> GrowthRow:
    kind = _kind(attention, causal=named_stack.causal)
    dims, width = attention_symbols(attention), bytes_of(precision)
    cached, state = _cache_formulas(attention) if named_stack.causal else ("0", "0")
    formulas = [
        formula
        for formula in (cached if cached == "0" else f"{cached} per token", state)
        if formula != "0"
    ]
    return GrowthRow(
        part=part,
        layers=layers,
        work=kind.work,
        work_formula=f"T ({mixing(attention, causal=named_stack.causal)})",
        memory="O(T^2)" if squares else "O(T)",
        step=kind.step if named_stack.causal else "none",
        cache_bytes_per_token=width * evaluate_int(times(layers, "", cached), dims),
        state_bytes=_STATE_BYTES * evaluate_int(times(layers, "", state), dims),
        kept_formula=" + ".join(formulas) or "none",
        words=kind.words + squares,
    )


def _kind(attention: OneAttention, *, causal: bool) -> _Kind:
    reach = "every token before it" if causal else "every token"
    match attention:
        case MultiHead(window=None) | LatentAttention():
            return _Kind(
                "O(T^2)",
                "O(T)",
                f"each token looks at {reach}: twice the text is four times the work",
            )
        case MultiHead():
            return _Kind(
                "O(T w)",
                "O(w)",
                "each token looks at a window: twice the text is twice the work"
                + ("" if causal else ", in a kernel that skips masked scores (ours does T^2)"),
            )
        case LinearAttention():
            return _Kind(
                "O(T)",
                "O(1)",
                "the past is a sum of fixed size: twice the text is twice the work, and a step "
                "costs the same however much was read",
            )
        case NeuralMemory():
            return _Kind(
                "O(T)",
                "O(w)",
                "a window and a memory of fixed size: twice the text is twice the work, and a "
                "step costs the same however much was read",
            )
        case _:
            assert_never(attention)


def _cache_formulas(attention: OneAttention) -> tuple[str, str]:
    """Numbers that one layer keeps during generation: for each token, and once."""
    match attention:
        case MultiHead():
            return "h_kv (d_k + d_v)", "0"
        case LatentAttention():
            return "d_c + d_r", "0"
        case LinearAttention():
            return "0", "h (d_k d_v + d_k)"
        case NeuralMemory(frozen=frozen):
            # the memory before the current chunk, the memory now, and its momentum
            return "h (d_k + d_v)", "0" if frozen else "3 h d_k d_v"
        case _:
            assert_never(attention)


def _squares(attention: OneAttention, positions: OnePositions) -> str:
    """Why a score for every query and key is in memory; empty if it is not."""
    if isinstance(attention, MultiHead) and scores_are_formed(attention, positions):
        conditions = {
            "the soft cap": attention.soft_cap is not None,
            "the sinks": attention.sinks,
            "the vectors on values": isinstance(positions, ShawRelative) and positions.values,
        }
        reasons = " and ".join(reason for reason, applies in conditions.items() if applies)
        return f"; {reasons}: no fused kernel has them, so all scores are formed"
    if adds_to_scores(positions):
        return "; the positions' part of the scores is formed for every query and key"
    return ""


def _cross_row(cross: MultiHead, layers: int, precision: Precision) -> GrowthRow:
    dims, width = attention_symbols(cross), bytes_of(precision)
    formula = "h_kv (d_k + d_v)"
    return GrowthRow(
        part="cross attention",
        layers=layers,
        work="O(n T)",
        work_formula="T 2 h (d_k + d_v) n",
        memory="O(n + T)",
        step="O(n)",
        cache_bytes_per_token=width * evaluate_int(times(layers, "", formula), dims),
        state_bytes=0,
        kept_formula=f"{formula} per token of the encoder's text",
        words="each token looks at all n tokens of the encoder's text, whose keys and values are "
        "made once",
    )
