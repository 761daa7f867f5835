"""Rows of the table of laws for functions to minimise: softmax, losses, divergences, a head.

Comes in: nothing. Goes out: what `tests/maths/test_laws.py` holds the equations to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid import maths
from support.equations import Arrays, Row

RANDOM = np.random.default_rng(5)


def some(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


LOGITS, OTHER, GRAD = some(3, 4), some(3, 4), some(3, 4)
TARGETS = np.array([0, 3, 1])
P, Q = maths.softmax(some(3, 4)), maths.softmax(some(3, 4))
EVEN, ONE_HOT = np.full((3, 4), 0.25), np.eye(4)[:3]
NO_ROWS = np.zeros((0, 4))
LOSS = {"label_smoothing": 0.1, "z_loss": 0.01}
PLAIN = {"label_smoothing": 0.0, "z_loss": 0.01}  # a smoothed target pays for what is masked

#: Rows of scores that break a careless formula; the last array has no rows at all.
SCORES = (
    np.array([[1e4, -1e4, 0.0, 1e4], [-1e4, -1e4, -1e4, -1e4], [1e4, 1e4, 1e4, 1e4]]),
    np.array([[0.5, -np.inf, 1.5, -np.inf], [-np.inf, 2.0, -np.inf, -np.inf]]),
    np.eye(4) * 1e4,
    NO_ROWS,
    np.array([[-3.0]]),
)
MASKED = (*SCORES, np.stack([np.full(4, -np.inf), np.arange(4.0)]))
TRUTH = ((ONE_HOT,), (EVEN,), (NO_ROWS,))
PAIRS = ((ONE_HOT, EVEN), (EVEN, EVEN), (ONE_HOT, ONE_HOT), (NO_ROWS, NO_ROWS))
APART = (*PAIRS, (EVEN, ONE_HOT), (ONE_HOT, np.eye(4)[1:]))
FAR = np.array([-1e4, -1.0, 0.0, 1.0, 1e4])
YES_OR_NO = (np.array([0.0, 0.0, 1.0, 1.0, 0.5]), np.array([0.0, 1.0, 0.0, 1.0, 0.5]))
WARM = {"temperature": 2.0}


def _with_targets(scores: np.ndarray) -> Arrays:
    """The scores, and the largest of each row as what occurred."""
    return scores, scores.argmax(-1)


def per_row(gradient: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The gradients of one number per row, where `grad` reaches that number."""

    def hand(*arrays: Any) -> Any:
        *inputs, grad = arrays
        grads = gradient(*inputs, **options)
        grad_tuple = grads if isinstance(grads, tuple) else (grads,)
        scaled = tuple(
            g * grad.reshape(grad.shape + (1,) * (g.ndim - grad.ndim)) for g in grad_tuple
        )
        return scaled if isinstance(grads, tuple) else scaled[0]

    return hand


def loss(name: str, arrays: Arrays, extremes: Any = (), **rest: Any) -> dict[str, Row]:
    """The rows of a loss, one number per row, and of its gradient."""
    options = rest.pop("options", {})
    gradient = getattr(maths, f"{name}_grad")
    return {
        name: Row(arrays, options, hand=per_row(gradient, **options), extremes=extremes, **rest),
        f"{name}_grad": Row(arrays, options, extremes=extremes, smooth=False, **rest),
    }


def elementwise(
    name: str, x: np.ndarray, extremes: Any = ((FAR,),), **options: Any
) -> dict[str, Row]:
    """The rows of a function of each number, and of its gradient."""
    gradient = getattr(maths, f"{name}_grad")
    return {
        name: Row(
            (x,), options, hand=lambda a, grad: gradient(a, grad, **options), extremes=extremes
        ),
        f"{name}_grad": Row(
            (x, np.ones_like(x)),
            options,
            smooth=False,
            extremes=[(*arrays, np.ones_like(arrays[0])) for arrays in extremes],
        ),
    }


SOFTMAX_ROWS: dict[str, Row] = {
    "softmax": Row(
        (LOGITS,),
        WARM,
        hand=lambda x, grad: maths.softmax_grad(x, grad, **WARM),
        extremes=[(x,) for x in MASKED],
    ),
    "softmax_grad": Row((LOGITS, GRAD), WARM, extremes=[(x, np.ones_like(x)) for x in MASKED]),
    "log_softmax": Row(
        (LOGITS,),
        WARM,
        hand=lambda x, grad: maths.log_softmax_grad(x, grad, **WARM),
        extremes=[(x,) for x in MASKED],
    ),
    "log_softmax_grad": Row((LOGITS, GRAD), WARM, extremes=[(x, np.ones_like(x)) for x in MASKED]),
    "logsumexp": Row(
        (LOGITS,),
        hand=lambda x, grad: maths.softmax(x) * grad[..., None],
        extremes=[(x,) for x in MASKED],
    ),
    "softmax_jacobian": Row((LOGITS,), WARM, extremes=[(x,) for x in MASKED]),
    "softmax_jacobian_product": Row(
        (LOGITS, GRAD), WARM, extremes=[(x, np.ones_like(x)) for x in MASKED]
    ),
    **elementwise("sum_normalise", np.abs(LOGITS) + 0.1, ((ONE_HOT,), (EVEN * 1e4,), (NO_ROWS,))),
    **elementwise("sigmoid", some(5)),
    **elementwise("softplus", some(5)),
    **loss("normalised_entropy", (P,), TRUTH, simplex=(0,)),
    **loss("renyi2_entropy", (P,), TRUTH, simplex=(0,)),
    "softmax_slope": Row((P,), simplex=(0,), extremes=TRUTH),
}

LOSS_ROWS: dict[str, Row] = {
    **loss(
        "cross_entropy",
        (LOGITS, TARGETS),
        [_with_targets(x) for x in SCORES],
        options=LOSS,
        extreme_options=PLAIN,
    ),
    **loss("soft_cross_entropy", (LOGITS, P), [(x, np.eye(4)[x.argmax(-1)]) for x in SCORES[:4]]),
    **loss(
        "cross_entropy_from_probabilities",
        (P, TARGETS),
        [(ONE_HOT, TARGETS), (EVEN, TARGETS), (NO_ROWS, TARGETS[:0])],
        simplex=(0,),
    ),
    **loss(
        "focal_loss", (LOGITS, TARGETS), [_with_targets(x) for x in SCORES], options={"gamma": 1.5}
    ),
    **loss("binary_cross_entropy", (P[0], Q[0]), [YES_OR_NO]),
    **loss("binary_cross_entropy_from_logits", (LOGITS[0], Q[0]), [(FAR, YES_OR_NO[1])]),
    **loss("brier_score", (P[0], Q[0]), [YES_OR_NO]),
    **loss("sequence_log_likelihood", (LOGITS, TARGETS), [_with_targets(x) for x in SCORES]),
    **loss(
        "language_model_loss",
        (LOGITS, TARGETS),
        [_with_targets(x) for x in SCORES if x.size],
    ),
}

DIVERGENCE_ROWS: dict[str, Row] = {
    **loss("entropy", (P,), TRUTH, simplex=(0,)),
    **loss("entropy_of_logits", (LOGITS,), [(x,) for x in MASKED]),
    **loss("cross_entropy_between", (P, Q), APART, simplex=(0, 1)),
    **loss("kl_divergence", (P, Q), APART, simplex=(0, 1)),
    **loss("jensen_shannon", (P, Q), APART, simplex=(0, 1)),
    **loss(
        "forward_kl",
        (LOGITS, OTHER),
        [(x, x) for x in MASKED] + [(x, 0 * np.ones_like(x)) for x in MASKED[:1]],
        options=WARM,
    ),
    **loss(
        "reverse_kl",
        (LOGITS, OTHER),
        [(x, x) for x in MASKED] + [(x, 0 * np.ones_like(x)) for x in MASKED[:1]],
        options=WARM,
    ),
    **loss(
        "jensen_shannon_of_logits",
        (LOGITS, OTHER),
        [(x, x) for x in MASKED] + [(x, 0 * np.ones_like(x)) for x in MASKED],
        options=WARM,
    ),
    "relative_entropy": Row((P, np.abs(LOGITS)), hand=maths.relative_entropy_grad, extremes=APART),
    "relative_entropy_grad": Row(
        (P, np.abs(LOGITS), GRAD), smooth=False, extremes=[(*x, x[0]) for x in APART]
    ),
    "kl_k1": Row((LOGITS,), hand=lambda x, grad: -grad, extremes=[(FAR,)]),
    **elementwise("kl_k2", some(5)),
    **elementwise("kl_k3", some(5)),
}

A, B = some(2, 3, 3), some(2, 3, 3)
WIDE, NARROW = A @ A.swapaxes(-1, -2) + np.eye(3), B @ B.swapaxes(-1, -2) + np.eye(3)
MEANS, STDS = some(2, 3), np.abs(some(2, 3)) + 0.5
GAUSSIANS = (MEANS, STDS, MEANS[::-1].copy(), STDS[::-1].copy())

GAUSSIAN_ROWS: dict[str, Row] = {
    **loss("gaussian_kl", GAUSSIANS, [(MEANS * 1e4, STDS * 1e-4, MEANS, STDS * 1e4)]),
    **loss("gaussian_kl_diagonal", GAUSSIANS, [(MEANS * 1e4, STDS * 0, MEANS, STDS * 10)]),
    **loss("gaussian_kl_full", (MEANS, WIDE, MEANS[::-1].copy(), NARROW)),
}

X, WEIGHT, BIAS = some(2, 3, 5), some(4, 5), some(4)
ANSWERS, IDS = np.array([[0, 3, 1], [2, 2, 0]]), np.array([[0, 0, 1], [3, 3, 0]])

HEAD_ROWS: dict[str, Row] = {
    "embedding": Row(
        (WEIGHT, IDS),
        hand=lambda w, ids, grad: maths.embedding_grad(ids, grad, vocab_size=4),
        extremes=[(WEIGHT, IDS[:0])],
    ),
    "embedding_grad": Row((IDS, X), {"vocab_size": 4}, smooth=False, extremes=[(IDS[:0], X[:0])]),
    "linear_head_loss": Row(
        (X, WEIGHT, BIAS, ANSWERS),
        hand=per_row(maths.linear_head_grads),
        extremes=[(X * 1e4, WEIGHT, BIAS, ANSWERS)],
    ),
    "linear_head_grads": Row(
        (X, WEIGHT, BIAS, ANSWERS), smooth=False, extremes=[(X * 1e4, WEIGHT, BIAS, ANSWERS)]
    ),
    "tied_loss": Row(
        (WEIGHT, IDS, ANSWERS),
        hand=per_row(maths.tied_loss_grad),
        extremes=[(WEIGHT * 1e2, IDS, ANSWERS)],
    ),
    "tied_loss_grad": Row((WEIGHT, IDS, ANSWERS), smooth=False),
}

COUNTS = np.abs(some(2, 3, 3)) * 10
SURE, HIT = np.array([0.05, 0.31, 0.62, 0.93, 0.87]), np.array([0.0, 1.0, 1.0, 1.0, 0.0])
NEVER = np.zeros((3, 3))

CLASSIFICATION_ROWS: dict[str, Row] = {
    "confusion_matrix": Row((P, Q), extremes=[(ONE_HOT, ONE_HOT), (P[:0], Q[:0])]),
    "accuracy": Row((COUNTS,), extremes=[(NEVER,), (COUNTS * 1e4,)]),
    "precision_score": Row((COUNTS,), extremes=[(NEVER,), (np.eye(3) * 1e4,)]),
    "recall_score": Row((COUNTS,), extremes=[(NEVER,), (np.eye(3) * 1e4,)]),
    "f1_score": Row((COUNTS,), extremes=[(NEVER,), (np.eye(3) * 1e4,)]),
    "calibration_bins": Row(
        (SURE, HIT), {"n_bins": 4}, smooth=False, extremes=[(np.array([0.0, 0.25, 1.0]), HIT[:3])]
    ),
    "expected_calibration_error": Row(
        (SURE, HIT), {"n_bins": 4}, smooth=False, extremes=[(np.array([0.0, 0.25, 1.0]), HIT[:3])]
    ),
}

ROWS = {
    **CLASSIFICATION_ROWS,
    **SOFTMAX_ROWS,
    **LOSS_ROWS,
    **DIVERGENCE_ROWS,
    **GAUSSIAN_ROWS,
    **HEAD_ROWS,
}

#: Functions of plain numbers: arguments by name, and the value worked out by hand.
NUMBERS: dict[str, tuple[dict[str, float], float | tuple[float, ...]]] = {
    "perplexity": ({"loss_nats": np.log(7.0)}, 7.0),
    "bits_per_byte": ({"loss_nats": np.log(2.0), "tokens": 3, "n_bytes": 12}, 0.25),
}
