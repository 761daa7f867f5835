"""Optimisers as functions: one step, state in, state out."""

from __future__ import annotations

from typing import Literal, get_args

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import (
    COUNT,
    DECAY_RATE,
    FRACTION,
    FROM_ZERO,
    NOT_NEGATIVE,
    Words,
    not_negative,
)

#: Whose coefficients `newton_schulz` has.
Polynomials = Literal["Jordan", "Polar Express"]
#: a, b and c of each step; the last row holds for all later steps.
_POLYNOMIALS = {
    "Jordan": ((3.4445, -4.7750, 2.0315),),
    "Polar Express": (
        (8.287212018, -23.595886519, 17.300387313),
        (4.107059112, -2.947849917, 0.544843108),
        (3.948690853, -2.908902116, 0.551819139),
        (3.318419657, -2.488488024, 0.510048940),
        (2.300652020, -1.668903985, 0.418807312),
        (1.891301408, -1.267995827, 0.376804089),
        (1.875, -1.25, 0.375),
    ),
}
#: Polar Express leaves room for singular values that rounding has lifted above 1.
_ROOM = 1.01


@equation(w="...", grad="...", learning_rate=NOT_NEGATIVE)
def sgd_step(w: Array, grad: Array, *, learning_rate: float) -> Array:
    """One step along the negative gradient.

    w <- w - lr g

    Args:
        w, grad: (...). Returns w.
    Fails:
        It diverges where the curvature is too large: on c w^2 / 2 it needs lr < 2 / c.
    Raises:
        MathsError: the shapes differ, or the learning rate is negative.
    Source:
        Robbins and Monro 1951, "A Stochastic Approximation Method", eq. 6.
    Example:
        sgd_step(array([1.0, -2.0]), array([0.5, 0.5]), learning_rate=0.1)
    """
    return w - learning_rate * grad


@equation(w="...", grad="...", velocity="...", learning_rate=NOT_NEGATIVE, momentum=FRACTION)
def momentum_step(
    w: Array, grad: Array, velocity: Array, *, learning_rate: float, momentum: float
) -> tuple[Array, Array]:
    """One step along a sum of all gradients so far, in which older gradients have less weight.

    v <- momentum v + g,  w <- w - lr v

    Args:
        w, grad, velocity: (...). Returns w, velocity.
        momentum: in [0, 1]; a steady gradient is multiplied by 1 / (1 - momentum).
    Raises:
        MathsError: the shapes differ, the learning rate is negative, or the momentum not in [0, 1].
    Source:
        Polyak 1964, "Some methods of speeding up the convergence of iteration methods", eq. 9;
        Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning",
        eq. 1-2, where the learning rate is inside the velocity.
    Example:
        momentum_step(array([1.0]), array([0.5]), array([1.0]), learning_rate=0.1, momentum=0.9)
    """
    velocity = momentum * velocity + grad
    return w - learning_rate * velocity, velocity


@equation(
    w="...",
    grad="...",
    m="...",
    v=not_negative("..."),
    step=COUNT,
    learning_rate=NOT_NEGATIVE,
    beta1=DECAY_RATE,
    beta2=DECAY_RATE,
    eps=NOT_NEGATIVE,
    weight_decay=NOT_NEGATIVE,
)
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
    Fails:
        With a large eps the step is proportional to the gradient, as in SGD.
    Raises:
        MathsError: the shapes differ, the learning rate is negative, a beta is not in [0, 1), or
            the step is not at least 1.
    Source:
        Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2.
    See also:
        `adam_step`, which adds the decay to the gradient.
    Example:
        adamw_step(ones(1), ones(1), zeros(1), zeros(1), step=1, learning_rate=0.1, beta1=0.9,
            beta2=0.999, eps=1e-8, weight_decay=0.1)
    """
    xp = namespace(w, grad)
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    direction = (m / (1 - beta1**step)) / (xp.sqrt(v / (1 - beta2**step)) + eps)
    return w - learning_rate * weight_decay * w - learning_rate * direction, m, v


@equation(adamw_step, l2=NOT_NEGATIVE)
def adam_step(
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
    l2: float,
) -> tuple[Array, Array, Array]:
    """One Adam step with an L2 penalty in the gradient, in contrast to AdamW's separate decay.

    g <- g + l2 w
    m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2
    w <- w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

    Args:
        step: t, counted from 1. l2: twice the strength of the penalty. Returns w, m, v.
    Fails:
        The penalty's gradient is divided by sqrt(v) too, so weights with large gradients hardly
        shrink.
    Raises:
        MathsError: the shapes differ, the learning rate is negative, or a beta is not in [0, 1).
    Source:
        Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", algorithm 1; Loshchilov
        and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2 (the L2 in it).
    See also:
        `adamw_step`.
    Example:
        adam_step(ones(1), ones(1), zeros(1), zeros(1), step=1, learning_rate=0.1, beta1=0.9,
            beta2=0.999, eps=1e-8, l2=0.1)
    """
    return adamw_step(
        w,
        grad + l2 * w,
        m,
        v,
        step=step,
        learning_rate=learning_rate,
        beta1=beta1,
        beta2=beta2,
        eps=eps,
        weight_decay=0.0,
    )


@equation(average="...", step=COUNT, decay=DECAY_RATE)
def bias_corrected(average: Array, *, step: int, decay: float) -> Array:
    """A moving average that began at 0, as if it had been full from the start.

    m^ = m / (1 - b^t)

    After t steps the weights b^k (1 - b) of the gradients so far sum to 1 - b^t. Divided by that
    they sum to 1, so a steady gradient is returned as it is from the first step on.

    Args:
        average: m <- b m + (1 - b) g from m = 0, (...). step: t, counted from 1. decay: b. Returns
            like average.
    Fails:
        Left out, Adam's first step is (1 - beta1) / sqrt(1 - beta2) times as large: 3.2 times with
        0.9 and 0.999.
    Raises:
        MathsError: the step is not at least 1, or the decay not in [0, 1).
    Source:
        Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization", section 3.
    See also:
        `adamw_step`.
    Example:
        bias_corrected(array([0.1]), step=1, decay=0.9)
    """
    return average / (1 - decay**step)


@equation(
    matrix="... rows>=0 columns>=0",
    steps=FROM_ZERO,
    polynomials=Words(get_args(Polynomials)),
)
def newton_schulz(matrix: Array, *, steps: int, polynomials: Polynomials = "Jordan") -> Array:
    """Approximately the nearest orthogonal matrix: large singular values move close to 1.

    X_0 = M / (|M|_F + 1e-7),  X <- a X + (b A + c A^2) X,  A = X X^T
    (a, b, c) = (3.4445, -4.7750, 2.0315), or in Polar Express others at each step

    |M|_F is the Frobenius norm: the root of the sum of the squares of all entries. It is at least
    the largest singular value, so the singular values of X_0 lie between 0 and 1. Jordan's
    coefficients are chosen for speed, not convergence. After 5 steps every singular value that was
    at least 0.0016 |M|_F lies between 0.68 and 1.21. One that was s |M|_F with s below 0.001 is at
    most 485 s, which is below 1/2. Polar Express takes at each step the polynomial that brings
    values between l and u nearest to 1, where l and u follow from the step before and l begins at
    0.001. Values from 0.001 |M|_F lie between 0.42 and 1.57 after 4 steps, and between 0.99 and
    1.01 after 6.

    Args:
        matrix: (..., rows, columns). Returns the same shape.
        steps: the number of iterations, at least 0.
        polynomials: whose coefficients.
    Fails:
        In a large matrix many singular values are small relative to the Frobenius norm, and stay
        small.
    Raises:
        MathsError: the matrix has fewer than two axes, steps is negative, or nobody's coefficients
            have that name.
    Source:
        Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; Amsel et al.
        2025, "The Polar Express: Optimal Matrix Sign Methods and Their Application to the Muon
        Algorithm", algorithm 1.
    Example:
        newton_schulz(array([[2.0, 0.0], [0.0, 0.5]]), steps=5)
    """
    xp = namespace(matrix)
    norm = xp.sqrt(xp.sum(matrix**2, axis=(-2, -1), keepdims=True))
    x = matrix / (norm + 1e-7)
    tall = matrix.shape[-2] > matrix.shape[-1]
    if tall:
        x = xp.matrix_transpose(x)
    for step in range(steps):
        a, b, c = newton_schulz_coefficients(step, polynomials)
        gram = x @ xp.matrix_transpose(x)
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return xp.matrix_transpose(x) if tall else x


def newton_schulz_coefficients(step: int, polynomials: Polynomials) -> tuple[float, float, float]:
    """a, b and c of a step of `newton_schulz`, from 0."""
    rows = _POLYNOMIALS[polynomials]
    a, b, c = rows[min(step, len(rows) - 1)]
    if polynomials == "Jordan" or step >= len(rows) - 1:
        return a, b, c
    return a / _ROOM, b / _ROOM**3, c / _ROOM**5
