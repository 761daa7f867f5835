"""Rows of the table of laws for parts and steps: activations, attention, penalties, preference.

Comes in: nothing. Goes out: what `tests/maths/test_laws.py` holds the equations to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid import maths
from support.equations import Row
from support.losses import EVEN, FAR, LOGITS, ONE_HOT, P, Q, elementwise, loss, some

GATES = some(2, 3), some(2, 3)
CLAMPED = {"limit": 1.5, "slope": 1.702}
ACTIVATION_ROWS: dict[str, Row] = {
    **elementwise("relu", some(5)),
    **elementwise("relu_squared", some(5)),
    **elementwise("gelu", some(5)),
    **elementwise("gelu_tanh", some(5)),
    **elementwise("quick_gelu", some(5)),
    **elementwise("tanh", some(5)),
    **elementwise("silu", some(5)),
    **elementwise("erf", some(5) * 2, ((FAR,), (np.array([-6.0, -2.0, 0.0, 2.0, 6.0]),))),
    "swiglu": Row(GATES, hand=maths.swiglu_grad, extremes=[(FAR, FAR)]),
    "swiglu_grad": Row((*GATES, some(2, 3)), extremes=[(FAR, FAR, FAR)]),
    "glu": Row(GATES, hand=maths.glu_grad, extremes=[(FAR, FAR)]),
    "glu_grad": Row((*GATES, some(2, 3)), extremes=[(FAR, FAR, FAR)]),
    "geglu": Row(GATES, hand=maths.geglu_grad, extremes=[(FAR, FAR)]),
    "geglu_grad": Row((*GATES, some(2, 3)), extremes=[(FAR, FAR, FAR)]),
    "clamped_swiglu": Row(
        (some(2, 3) * 2, some(2, 3) * 2),
        CLAMPED,
        hand=lambda gate, up, grad: maths.clamped_swiglu_grad(gate, up, grad, **CLAMPED),
        extremes=[(FAR, FAR)],
    ),
    "clamped_swiglu_grad": Row(
        (*GATES, some(2, 3)), CLAMPED, smooth=False, extremes=[(FAR, FAR, FAR)]
    ),
    "residual_jacobian": Row(
        (some(2, 3, 3),), hand=lambda x, grad: grad, extremes=[(np.zeros((0, 2, 2)),)]
    ),
    "chained_jacobian": Row((some(4, 3, 3),), extremes=[(np.zeros((1, 2, 2)),)]),
}

X, CONTEXT, SEEN = some(2, 3, 4), some(2, 5, 4), np.array([[True, False] * 2 + [True]] * 3)
MATRICES = (some(6, 4), some(6, 4), some(2, 4), some(4, 2))
LONE = np.array([[False] * 5, [True] * 5, [True, False, False, False, False]])
#: queries, latents, shared keys, and the matrices to keys and values
LATENTS = (some(2, 2, 3, 5), some(2, 5, 4), some(2, 5, 2), some(2, 3, 4), some(2, 3, 4))
QUERIES, KEYS = some(2, 3, 4), some(2, 5, 4)


def _heads_hand(*arrays: Any) -> Any:
    *inputs, mask, grad = arrays
    return maths.multi_head_attention_grad(*inputs, grad, n_heads=2, mask=mask)


def _latent_hand(*arrays: Any) -> Any:
    *inputs, mask, grad = arrays
    return maths.latent_attention_grad(*inputs, grad, mask=mask)


def _entropy_hand(q: Any, k: Any, mask: Any, grad: Any) -> Any:
    """Each query's entropy alone: `attention_entropy_grad` is for 1 reaching all of them."""
    reaches = np.eye(q.shape[-2])
    dq = maths.attention_entropy_grad(q, k, mask=mask)[0] * grad[..., None]
    dk = sum(
        maths.attention_entropy_grad(q[:, [i]], k, mask=mask[[i]])[1] * grad[:, i, None, None]
        for i in range(len(reaches))
    )
    return dq, dk


ATTENTION_ROWS: dict[str, Row] = {
    "simple_attention": Row(
        (X,), hand=maths.simple_attention_grad, extremes=[(X * 1e4,), (X[:0],), (X * 0,)]
    ),
    "simple_attention_grad": Row((X, some(2, 3, 4)), extremes=[(X * 1e4, X)]),
    "multi_head_attention": Row(
        (X, CONTEXT, *MATRICES, LONE),
        {"n_heads": 2},
        hand=_heads_hand,
        named=("mask",),
        extremes=[(X * 1e4, CONTEXT * 1e4, *MATRICES, LONE)],
    ),
    "multi_head_attention_grad": Row(
        (X, CONTEXT, *MATRICES, some(2, 3, 4), LONE),
        {"n_heads": 2},
        named=("mask",),
        smooth=False,
        extremes=[(X * 1e4, CONTEXT * 1e4, *MATRICES, some(2, 3, 4), LONE)],
    ),
    "latent_attention": Row(
        (*LATENTS, LONE),
        hand=_latent_hand,
        named=("mask",),
        extremes=[(LATENTS[0] * 1e4, *LATENTS[1:], LONE)],
    ),
    "latent_attention_grad": Row(
        (*LATENTS, some(2, 2, 3, 3), LONE),
        named=("mask",),
        smooth=False,
        extremes=[(LATENTS[0] * 1e4, *LATENTS[1:], some(2, 2, 3, 3), LONE)],
    ),
    "attention_logsumexp": Row(
        (QUERIES, KEYS, SEEN), named=("mask",), extremes=[(QUERIES * 1e4, KEYS, LONE)]
    ),
    "attention_entropy": Row(
        (QUERIES, KEYS, LONE),
        named=("mask",),
        hand=_entropy_hand,
        extremes=[(QUERIES, KEYS, LONE), (QUERIES * 0, KEYS * 1e4, LONE)],
    ),
    "attention_entropy_grad": Row(
        (QUERIES, KEYS, SEEN), named=("mask",), extremes=[(QUERIES * 1e4, KEYS, LONE)]
    ),
    "largest_score_bounds": Row(
        (some(3), np.array([4, 1, 7])),
        extremes=[(np.array([-np.inf, 1e4]), np.array([1, 2]))],
    ),
}

ROUTED, SHIFT, LOAD = some(3, 5), some(5), np.array([4.0, 0.0, 2.0, 2.0, 7.0])
FAR_LOGITS = np.array([[1e4, -1e4, 0.0, 1e4, 1.0], [-1e4] * 5, [1e4] * 5])
OF_ALL = {"n_active": 2, "normalised": False}
OF_CHOSEN = {"n_active": 2, "normalised": True}
SCALED = {"n_active": 2, "scale": 2.5}

EXPERT_ROWS: dict[str, Row] = {
    "choose_experts": Row(
        (ROUTED,), {"n_active": 2}, smooth=False, extremes=[(FAR_LOGITS,), (ROUTED[:0],)]
    ),
    "softmax_router": Row(
        (ROUTED,),
        OF_ALL,
        hand=lambda x, grad: maths.softmax_router_grad(x, grad, **OF_ALL),
        extremes=[(FAR_LOGITS,), (ROUTED[:0],)],
    ),
    "softmax_router_grad": Row(
        (ROUTED, some(3, 5)), OF_CHOSEN, smooth=False, extremes=[(FAR_LOGITS, FAR_LOGITS)]
    ),
    "sigmoid_router": Row(
        (ROUTED, SHIFT),
        SCALED,
        hand=lambda x, b, grad: maths.sigmoid_router_grad(x, b, grad, **SCALED),
        extremes=[(FAR_LOGITS, SHIFT), (ROUTED[:0], SHIFT)],
    ),
    "sigmoid_router_grad": Row(
        (ROUTED, SHIFT, some(3, 5)),
        SCALED,
        smooth=False,
        extremes=[(FAR_LOGITS, SHIFT, FAR_LOGITS)],
    ),
    "mixture_of_experts": Row(
        (ROUTED, some(3, 5, 2)),
        hand=maths.mixture_of_experts_grad,
        extremes=[(FAR_LOGITS, some(3, 5, 2) * 1e4)],
    ),
    "mixture_of_experts_grad": Row(
        (ROUTED, some(3, 5, 2), some(3, 2)),
        extremes=[(FAR_LOGITS, some(3, 5, 2), some(3, 2) * 1e4)],
    ),
    **loss("load_balancing_loss", (P, Q), [(EVEN, EVEN), (ONE_HOT, ONE_HOT)], simplex=(0,)),
    **loss("router_z_loss", (ROUTED,), [(FAR_LOGITS,), (ROUTED[:0],)]),
    "balancing_step": Row(
        (SHIFT, LOAD),
        {"rate": 0.1},
        hand=lambda b, load, grad: grad,
        extremes=[(SHIFT * 1e4, LOAD * 0), (SHIFT, LOAD * 1e4)],
    ),
}

W = some(2, 3)
NET = {"l1": 0.3, "l2": 0.2}
PROX = {"strength": 0.3, "step": 0.5}

PENALTY_ROWS: dict[str, Row] = {
    **loss("l1_penalty", (W,), [(FAR,)], options={"strength": 0.3}),
    **loss("l2_penalty", (W,), [(FAR,)], options={"strength": 0.3}),
    **loss("elastic_net_penalty", (W,), [(FAR,)], options=NET),
    "l1_prox": Row(
        (W,), PROX, hand=lambda w, grad: grad * (abs(w) > 0.15), extremes=[(FAR,), (FAR[:0],)]
    ),
    "l2_prox": Row((W,), PROX, hand=lambda w, grad: grad / 1.3, extremes=[(FAR,)]),
    "elastic_net_prox": Row(
        (W,),
        {**NET, "step": 0.5},
        hand=lambda w, grad: grad * (abs(w) > 0.15) / 1.2,
        extremes=[(FAR,)],
    ),
}

ADAM = {"step": 3, "learning_rate": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8}
OPTIMISER_ROWS: dict[str, Row] = {
    "sgd_step": Row((W, some(2, 3)), {"learning_rate": 0.1}, extremes=[(FAR, FAR)]),
    "momentum_step": Row(
        (W, some(2, 3), some(2, 3)),
        {"learning_rate": 0.1, "momentum": 0.9},
        extremes=[(FAR, FAR, FAR)],
    ),
    "adam_step": Row(
        (W, some(2, 3), some(2, 3), some(2, 3) ** 2),
        {**ADAM, "l2": 0.1},
        extremes=[(FAR, FAR, FAR, FAR**2), (FAR, -0.1 * FAR, FAR * 0, FAR * 0)],
    ),
}

ANSWERS = (-abs(some(4)), -abs(some(4)), -abs(some(4)), -abs(some(4)))
DPO = {"beta": 0.5, "label_smoothing": 0.1}
BETA = {"beta": 0.5}
CERTAIN = (FAR, FAR[::-1].copy(), FAR * 0, FAR * 0)

PREFERENCE_ROWS: dict[str, Row] = {
    **loss("dpo_loss", ANSWERS, [CERTAIN], options=DPO),
    "dpo_margin": Row(
        ANSWERS, BETA, hand=lambda c, r, rc, rr, grad: (grad / 2, -grad / 2), extremes=[CERTAIN]
    ),
    **loss("hinge_preference_loss", (some(5),), [(FAR,)]),
    **loss(
        "regularised_reward",
        (P, Q, LOGITS),
        [(ONE_HOT, EVEN, LOGITS * 1e4), (ONE_HOT, ONE_HOT, LOGITS)],
        options=BETA,
        simplex=(0, 1),
    ),
    "regularised_reward_optimum": Row(
        (P, LOGITS), BETA, simplex=(0,), extremes=[(ONE_HOT, LOGITS * 1e4), (EVEN, LOGITS * 0)]
    ),
    **loss("policy_gradient_loss", (some(4), some(4)), [(FAR, FAR)]),
    **loss(
        "clipped_policy_loss",
        (some(6), some(6), some(6)),
        [(FAR / 100, FAR * 0, FAR)],
        options={"clip": 0.2},
    ),
    "rloo_advantages": Row(
        (LOGITS,), hand=lambda r, grad: maths.rloo_advantages(grad), extremes=[(FAR,), (EVEN,)]
    ),
    "grpo_advantages": Row((LOGITS,), {"eps": 1e-4}, extremes=[(FAR,), (EVEN,)]),
}

ROWS = {
    **ACTIVATION_ROWS,
    **ATTENTION_ROWS,
    **EXPERT_ROWS,
    **PENALTY_ROWS,
    **OPTIMISER_ROWS,
    **PREFERENCE_ROWS,
}

#: Functions of plain numbers: arguments by name, and the value worked out by hand.
NUMBERS: dict[str, tuple[dict[str, float], float | tuple[float, ...]]] = {
    "lecun_std": ({"n_in": 16}, 0.25),
    "torch_linear_std": ({"n_in": 12}, 1 / 6),
    "gpt2_std": ({}, 0.02),
    "linear_variance": ({"mean_square": 2.0, "n_in": 8, "std": 0.25}, 1.0),
    "relu_mean_square": ({"variance": 3.0}, 1.5),
    "chained_variance": ({"variance": 3.0, "factor": 0.5, "n_layers": 2}, 0.75),
    "block_variance": ({"variance": 1.0, "attention": 0.25, "feed_forward": 0.5}, 1.75),
    "stream_variance": ({"variance": 1.0, "added": 0.5, "n_layers": 4}, 5.0),
}
