"""Optimisers as functions: one step, state in, state out.

Comes in: weights, gradients, moments. Goes out: new ones. It does not know models or groups;
`pellucid.optim` is tested against it.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace


def adamw_step(
    w: Array,
    grad: Array,
    m: Array,
    v: Array,
    *,
    step: int,
    learning_rate: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
) -> tuple[Array, Array, Array]:
    """One AdamW step: shrink the weight, then move it by the scaled average gradient.

    m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2
    w <- w - lr weight_decay w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

    Args:
        step: t, counted from 1. Returns w, m, v.
    Source:
        Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2.
    """
    xp = namespace(w, grad)
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    direction = (m / (1 - beta1**step)) / (xp.sqrt(v / (1 - beta2**step)) + eps)
    return w - learning_rate * weight_decay * w - learning_rate * direction, m, v


def newton_schulz(matrix: Array, *, steps: int) -> Array:
    """Nearly the closest orthogonal matrix: all singular values pushed towards 1.

    X <- a X + (b A + c A^2) X,  A = X X^T,  (a, b, c) = (3.4445, -4.7750, 2.0315)

    The coefficients are chosen for speed, not convergence: after 5 steps singular values lie
    between about 0.7 and 1.2.

    Args:
        matrix: (..., rows, columns). Returns the same shape.
    Source:
        Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks".
    """
    xp = namespace(matrix)
    a, b, c = 3.4445, -4.7750, 2.0315
    norm = xp.sqrt(xp.sum(matrix**2, axis=(-2, -1), keepdims=True))
    x = matrix / (norm + 1e-7)
    tall = matrix.shape[-2] > matrix.shape[-1]
    if tall:
        x = xp.matrix_transpose(x)
    for _ in range(steps):
        gram = x @ xp.matrix_transpose(x)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return xp.matrix_transpose(x) if tall else x
