"""What training a model costs: FLOPs per token and bytes of memory, by part, with the formula.

Comes in: a `config.Transformer` and the shape of a step. Goes out: rows. It does not know any
machine; the counts are of the arithmetic, not of a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from pellucid.config import SGD, Adam, AdamW, GatedMLP, Muon, Optimiser, Transformer
from pellucid.counting.parameters import parameter_count, parameters


@dataclass(frozen=True, slots=True)
class FlopRow:
    """A part, its FLOPs per token forward and backward, and the formula of the forward ones."""

    part: str
    forward: int
    backward: int
    formula: str


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """What lies in memory while training, in bytes, and the formula."""

    part: str
    n_bytes: int
    formula: str


def flops_per_token(model: Transformer) -> list[FlopRow]:
    """Multiply-adds (2 FLOPs each) for one token at full context; backward is twice the forward.

    A matrix costs 2 FLOPs per parameter and token. Attention's scores and its weighted sum each
    cost 2 FLOPs per head feature and visible key; a causal query sees (T + 1) / 2 keys on average.

    Source: Kaplan et al. 2020, "Scaling Laws for Neural Language Models", table 1.
    """
    attention = model.decoder.attention
    counts = {row.part: row.count for row in parameters(model)}
    keys = (model.context_length + 1) / 2
    width = attention.n_heads * attention.d_head
    scores = int(4 * model.decoder.n_layers * width * keys)
    forward = [
        ("attention projections", 2 * counts["attention"], "2 x its parameters"),
        ("attention scores and sums", scores, "4 n_layers n_heads d_head (T + 1) / 2"),
        ("feed-forward", 2 * counts["feed-forward"], "2 x its parameters"),
        ("head", 2 * model.rows * model.d_model, "2 vocab_size d_model"),
    ]
    return [FlopRow(part, count, 2 * count, formula) for part, count, formula in forward]


def _moments(optimiser: Optimiser, model: Transformer) -> tuple[int, str]:
    n = parameter_count(model)
    match optimiser:
        case AdamW() | Adam():
            return 8 * n, "2 moments x 4 bytes"
        case SGD(momentum=0.0):
            return 0, "none without momentum"
        case SGD():
            return 4 * n, "momentum x 4 bytes"
        case Muon():
            rows = parameters(model)
            hidden = sum(row.count for row in rows if row.part in ("attention", "feed-forward"))
            return 8 * n - 4 * hidden, "momentum x 4 bytes (matrices), 2 moments (the rest)"
        case _:
            assert_never(optimiser)


def memory(
    model: Transformer,
    optimiser: Optimiser,
    *,
    sequences: int,
    precision: Literal["float32", "bfloat16"],
) -> list[MemoryRow]:
    """Bytes while one micro-batch of `sequences` full contexts is trained on.

    Weights, gradients and moments are float32 ("master" weights); activations are what the
    backward pass needs, in the precision of the matrix products, with fused attention (no score
    matrix) and a loss that never forms all logits.
    """
    n = parameter_count(model)
    stack, attention, d = model.decoder, model.decoder.attention, model.d_model
    width = 2 if precision == "bfloat16" else 4
    moments, moments_formula = _moments(optimiser, model)
    queries = attention.n_heads * attention.d_head
    keys = attention.n_kv_heads * attention.d_head
    inner = (3 if isinstance(stack.feed_forward, GatedMLP) else 2) * stack.feed_forward.d_ff
    per_token = stack.n_layers * (4 * d + 2 * queries + 2 * keys + inner)

    tokens = sequences * model.context_length
    return [
        MemoryRow("weights", 4 * n, "4 bytes x parameters"),
        MemoryRow("gradients", 4 * n, "4 bytes x parameters"),
        MemoryRow("optimiser", moments, moments_formula),
        MemoryRow(
            "activations",
            tokens * per_token * width,
            f"{width} bytes x tokens x n_layers "
            "(4 d_model + 2 d_head (n_heads + n_kv_heads) + d_ff x matrices in)",
        ),
    ]
