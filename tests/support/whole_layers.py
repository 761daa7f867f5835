"""Rows of the table of laws for whole layers, adapters, tokens, steps and counts.

Comes in: nothing. Goes out: what `tests/maths/test_laws.py` holds the equations to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid import maths
from support.equations import Row
from support.losses import EVEN, FAR, MASKED, NO_ROWS, ONE_HOT, P, Q

RANDOM = np.random.default_rng(17)


def some(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


X = some(2, 3, 4)
#: up, its bias, down, its bias
WIDE = (some(6, 4), some(6), some(4, 6), some(4))
#: gains, query, key, value, output, up, down
BLOCK = (some(2, 4), some(6, 4), some(6, 4), some(2, 4), some(4, 2), some(6, 4), some(4, 6))
PRE: dict[str, Any] = {"n_heads": 2, "norm": "pre", "eps": 1e-5}
POST: dict[str, Any] = {**PRE, "norm": "post"}
THIN = (some(5, 4), some(2, 4), some(5, 2))
KEPT = RANDOM.uniform(size=(2, 3)) > 0.3
ROWS_OF_DISTANCE = np.array([[1, 2, 2, 0], [0, 1, 2, 2], [0, 0, 1, 2]])
PLACES = np.arange(4)
PAIRS = (np.array([20.0, 5.0, 1.0]), np.array([100.0, 5.0, 3.0]), np.array([50.0, 5.0, 2.0]))
FISHER = np.stack([a @ a.T + np.eye(3) for a in (some(3, 3), some(3, 3))])

LAYER_ROWS: dict[str, Row] = {
    "feed_forward": Row(
        (X, *WIDE), hand=maths.feed_forward_grad, extremes=[(X * 1e4, *WIDE), (X[:0], *WIDE)]
    ),
    "feed_forward_grad": Row(
        (X, *WIDE, some(2, 3, 4)), {"activation": "relu"}, extremes=[(X * 1e4, *WIDE, X)]
    ),
    "block": Row(
        (X, *BLOCK),
        POST,
        hand=lambda *arrays: maths.block_grad(*arrays, **POST),
        extremes=[(X * 1e4, *BLOCK), (X[:0], *BLOCK)],
    ),
    "block_grad": Row((X, *BLOCK, some(2, 3, 4)), PRE, extremes=[(X * 1e4, *BLOCK, X)]),
    "lora": Row(
        (X, *THIN),
        {"scale": 2.0},
        hand=lambda *arrays: maths.lora_grad(*arrays, scale=2.0),
        extremes=[(X * 1e4, *THIN), (X[:0], *THIN)],
    ),
    "lora_grad": Row((X, *THIN, some(2, 3, 5)), {"scale": 2.0}),
    "dropout": Row(
        (some(2, 3), KEPT),
        {"rate": 0.25},
        hand=lambda x, keep, grad: maths.dropout_grad(grad, keep, rate=0.25),
        extremes=[(FAR, FAR > 0), (FAR[:0], FAR[:0] > 0)],
    ),
    "dropout_grad": Row((some(2, 3), KEPT), {"rate": 0.25}, extremes=[(FAR, FAR > 0)]),
    "relative_scores": Row(
        (some(2, 3, 5), some(3, 5), ROWS_OF_DISTANCE),
        hand=maths.relative_scores_grad,
        extremes=[(some(0, 3, 5), some(3, 5), ROWS_OF_DISTANCE)],
    ),
    "relative_scores_grad": Row((some(2, 3, 5), some(3, 5), ROWS_OF_DISTANCE, some(2, 3, 4))),
    "causal_mask": Row((PLACES, PLACES), {"window": 2}, smooth=False),
    "kronecker_delta": Row((PLACES, PLACES % 2), smooth=False, extremes=[(PLACES[:0],) * 2]),
    "pair_counts": Row(
        (np.array([[0, 1, 0, 1], [2, 2, 2, 0]]),),
        {"size": 3},
        smooth=False,
        extremes=[(PLACES[:1],)],
    ),
    "word_piece_score": Row(PAIRS, extremes=[(PAIRS[0] * 0, *PAIRS[1:])]),
    "clip_by_norm": Row(
        (np.array([[3.0, -4.0, 1.0], [0.1, 0.2, 0.0]]),),
        {"max_norm": 1.0},
        hand=lambda x, grad: maths.clip_by_norm_grad(x, grad, max_norm=1.0),
        extremes=[(FAR,), (FAR * 0,), (NO_ROWS,)],
    ),
    "clip_by_norm_grad": Row(
        (some(2, 3), some(2, 3)), {"max_norm": 1.0}, extremes=[(FAR, FAR), (FAR * 0, FAR)]
    ),
    "gradient_noise_scale": Row((some(2, 5, 3),), extremes=[(np.eye(3),)]),
    "bias_corrected": Row(
        (some(3),), {"step": 3, "decay": 0.9}, hand=lambda m, grad: grad / (1 - 0.9**3)
    ),
    "argmax_share": Row((some(3, 4),), smooth=False, extremes=[(x,) for x in MASKED]),
    "speculative_acceptance": Row(
        (P, Q), simplex=(0, 1), extremes=[(ONE_HOT, EVEN), (EVEN, ONE_HOT), (EVEN, EVEN)]
    ),
    "quantize": Row((some(2, 5),), {"bits": 4}, smooth=False, extremes=[(FAR,), (FAR * 0,)]),
    "lipschitz_bound": Row(
        (np.array([[2.0, 0.5, 3.0]]),),
        {"residual": True},
        hand=lambda s, grad: grad[..., None] * np.prod(1 + s, -1, keepdims=True) / (1 + s),
        extremes=[(np.zeros((0, 2)),), (np.zeros(3),)],
    ),
    "trust_region_step": Row((some(2, 3), FISHER), {"max_kl": 0.01}),
    "bradley_terry_loss": Row(
        (some(5), some(5)),
        hand=lambda c, r, grad: tuple(grad * g for g in maths.bradley_terry_loss_grad(c, r)),
        extremes=[(FAR, -FAR), (FAR, FAR)],
    ),
    "bradley_terry_loss_grad": Row((some(5), some(5)), extremes=[(FAR, -FAR)]),
}

NUMBERS: dict[str, tuple[dict[str, float], float | tuple[float, ...]]] = {
    "best_of_n_kl": ({"n": 1}, 0.0),
    "gpt2_parameters": (
        {"vocab_size": 50257, "context_length": 1024, "d_model": 768, "n_layers": 12},
        124439808,
    ),
    "training_flops": ({"parameters": 10, "tokens": 7}, 420),
    "attention_flops": ({"n_layers": 2, "d_model": 3, "context_length": 5}, 360),
    "kv_cache_size": ({"n_layers": 2, "n_kv_heads": 3, "d_head": 5, "tokens": 7}, 420),
    "scaling_law_loss": (
        {
            "parameters": 16.0,
            "tokens": 9.0,
            "floor": 1.5,
            "a": 2.0,
            "alpha": 0.5,
            "b": 3.0,
            "beta": 0.5,
        },
        3.0,
    ),
}
