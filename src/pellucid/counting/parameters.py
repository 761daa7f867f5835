"""How many parameters each part of a model has, in closed form.

Comes in: a `config.Transformer`. Goes out: one row per part: count and formula. It does not know
torch; a test holds it against the modules that `model` builds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pellucid.config import (
    MLP,
    FeedForward,
    GatedMLP,
    LayerNorm,
    Learned,
    MultiHead,
    Norm,
    RMSNorm,
    Transformer,
)


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A part, how often it occurs, the parameters of all of them together, and the formula."""

    part: str
    times: int
    count: int
    formula: str


def parameters(model: Transformer) -> list[ParameterRow]:
    """The parts of `model` that hold parameters, in the order in which a token meets them."""
    d, rows, stack = model.d_model, model.rows, model.decoder
    n = stack.n_layers
    table = [ParameterRow("token embedding", 1, rows * d, "vocab_size d_model")]
    if isinstance(stack.positions, Learned):
        count = model.context_length * d
        table.append(ParameterRow("position embedding", 1, count, "context_length d_model"))
    norm, norm_formula = _norm(stack.norm, d)
    attention, attention_formula = _attention(stack.attention, d)
    feed_forward, feed_forward_formula = _feed_forward(stack.feed_forward, d)
    table += [
        ParameterRow("attention", n, n * attention, f"n_layers ({attention_formula})"),
        ParameterRow("feed-forward", n, n * feed_forward, f"n_layers ({feed_forward_formula})"),
        ParameterRow("norms of the blocks", 2 * n, 2 * n * norm, f"2 n_layers ({norm_formula})"),
    ]
    if stack.final_norm:
        table.append(ParameterRow("final norm", 1, norm, norm_formula))
    if not model.embedding.tied:
        table.append(ParameterRow("head", 1, rows * d, "vocab_size d_model"))
    return table


def parameter_count(model: Transformer) -> int:
    """All parameters of `model`; a tied head counts once."""
    return sum(row.count for row in parameters(model))


def _norm(norm: Norm, width: int) -> tuple[int, str]:
    match norm:
        case LayerNorm(bias=True):
            return 2 * width, "2 d_model"
        case LayerNorm() | RMSNorm():
            return width, "d_model"
        case _:
            assert_never(norm)


def _attention(attention: MultiHead, d_model: int) -> tuple[int, str]:
    queries = attention.n_heads * attention.d_head
    keys = attention.n_kv_heads * attention.d_head
    count = d_model * (queries + 2 * keys) + queries * d_model
    formula = "d_model d_head (n_heads + 2 n_kv_heads) + n_heads d_head d_model"
    if attention.qkv_bias:
        count += queries + 2 * keys
        formula += " + d_head (n_heads + 2 n_kv_heads)"
    if attention.out_bias:
        count += d_model
        formula += " + d_model"
    if attention.qk_norm is not None:
        each, _ = _norm(attention.qk_norm, attention.d_head)
        count += 2 * each
        formula += f" + {2 * each // attention.d_head} d_head"
    return count, formula


def _feed_forward(feed_forward: FeedForward, d_model: int) -> tuple[int, str]:
    d_ff = feed_forward.d_ff
    match feed_forward:
        case MLP():
            matrices, biases = 2, d_ff + d_model
            bias_formula = " + d_ff + d_model"
        case GatedMLP():
            matrices, biases = 3, 2 * d_ff + d_model
            bias_formula = " + 2 d_ff + d_model"
        case _:
            assert_never(feed_forward)
    count, formula = matrices * d_model * d_ff, f"{matrices} d_model d_ff"
    if feed_forward.bias:
        return count + biases, formula + bias_formula
    return count, formula
