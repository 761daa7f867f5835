"""Penalties on large weights, with their gradients and their proximal steps.

prox(w) is the u that minimises |u - w|^2 / 2 + step penalty(u). Unlike a step along the gradient,
it can give exact zeros.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import NOT_NEGATIVE


@equation(w="...", strength=NOT_NEGATIVE)
def l1_penalty(w: Array, *, strength: float) -> Array:
    """The sum of the absolute values of the weights.

    strength sum_i |w_i|

    Args:
        w: (...). Returns one number.
        strength: lambda, at least 0.
    Gradient:
        `l1_penalty_grad`, a subgradient at 0; as a proximal step, `l1_prox`.
    Fails:
        With gradient descent, weights oscillate around 0 and never become exactly 0.
    Raises:
        MathsError: w is not floating, or the strength is negative.
    Source:
        Tibshirani 1996, "Regression Shrinkage and Selection via the Lasso", eq. 1 (there as a
        constraint).
    Example:
        l1_penalty(array([3.0, -0.5, 0.0]), strength=0.1)
    """
    return strength * namespace(w).sum(_size(w))


@equation(l1_penalty)
def l1_penalty_grad(w: Array, *, strength: float) -> Array:
    """A subgradient of `l1_penalty`: the same for large and small weights, and 0 at 0.

    lambda sign(w)

    Args:
        As `l1_penalty`. Returns like w.
    """
    return strength * namespace(w).sign(w)


@equation(l1_penalty, step=NOT_NEGATIVE)
def l1_prox(w: Array, *, strength: float, step: float) -> Array:
    """Move every weight towards 0 by the same amount, and stop at exactly 0.

    sign(w) max(|w| - step strength, 0)

    Args:
        w: (...). Returns (...).
        step: the learning rate, at least 0.
    Gradient:
        1 where the result is not 0, else 0.
    Raises:
        MathsError: w is not floating, or the strength or the step is negative.
    Source:
        Daubechies, Defrise and De Mol 2004, "An iterative thresholding algorithm for linear inverse
        problems with a sparsity constraint" (soft threshold).
    Example:
        l1_prox(array([3.0, -0.5, 0.04]), strength=0.1, step=1.0)
    """
    xp = namespace(w)
    remaining = _size(w) - step * strength
    return xp.sign(w) * xp.where(remaining > 0, remaining, xp.zeros_like(remaining))


@equation(l1_penalty)
def l2_penalty(w: Array, *, strength: float) -> Array:
    """The sum of the squares of the weights.

    strength sum_i w_i^2

    Args:
        w: (...). Returns one number.
        strength: lambda, at least 0. Without a factor 1/2.
    Gradient:
        `l2_penalty_grad`; as a proximal step, `l2_prox`.
    Fails:
        Adam divides its gradient by the root of the average square, so there it is not weight
        decay.
    Raises:
        MathsError: w is not floating, or the strength is negative.
    Source:
        Hoerl and Kennard 1970, "Ridge Regression: Biased Estimation for Nonorthogonal Problems",
        section 2.
    See also:
        `adamw_step`, `adam_step`.
    Example:
        l2_penalty(array([3.0, -0.5, 0.0]), strength=0.1)
    """
    return strength * namespace(w).sum(w**2)


@equation(l1_penalty)
def l2_penalty_grad(w: Array, *, strength: float) -> Array:
    """The gradient of `l2_penalty`: proportional to the weight.

    2 lambda w

    Args:
        As `l2_penalty`. Returns like w.
    """
    return 2 * strength * w


@equation(l1_prox)
def l2_prox(w: Array, *, strength: float, step: float) -> Array:
    """Shrink every weight by the same factor; none becomes 0.

    w / (1 + 2 step strength)

    Args:
        w: (...). Returns (...).
        step: the learning rate, at least 0.
    Raises:
        MathsError: w is not floating, or the strength or the step is negative.
    Source:
        Parikh and Boyd 2014, "Proximal Algorithms", section 6.1.1.
    Example:
        l2_prox(array([3.0, -0.5, 0.04]), strength=0.1, step=1.0)
    """
    return w / (1 + 2 * step * strength)


@equation(w="...", l1=NOT_NEGATIVE, l2=NOT_NEGATIVE)
def elastic_net_penalty(w: Array, *, l1: float, l2: float) -> Array:
    """L1 and L2 together: L1 selects weights, L2 shares weight among similar features.

    l1 sum_i |w_i| + l2 sum_i w_i^2

    Args:
        w: (...). Returns one number.
        l1, l2: the strengths, at least 0.
    Gradient:
        `elastic_net_penalty_grad`, a subgradient at 0; as a proximal step, `elastic_net_prox`.
    Raises:
        MathsError: w is not floating, or a strength is negative.
    Source:
        Zou and Hastie 2005, "Regularization and variable selection via the elastic net", eq. 3.
    Example:
        elastic_net_penalty(array([3.0, -0.5, 0.0]), l1=0.1, l2=0.01)
    """
    return l1_penalty(w, strength=l1) + l2_penalty(w, strength=l2)


@equation(elastic_net_penalty)
def elastic_net_penalty_grad(w: Array, *, l1: float, l2: float) -> Array:
    """A subgradient of `elastic_net_penalty`.

    l1 sign(w) + 2 l2 w

    Args:
        As `elastic_net_penalty`. Returns like w.
    """
    return l1_penalty_grad(w, strength=l1) + l2_penalty_grad(w, strength=l2)


@equation(elastic_net_penalty, step=NOT_NEGATIVE)
def elastic_net_prox(w: Array, *, l1: float, l2: float, step: float) -> Array:
    """The L1 step, then the L2 step: small weights become exactly 0, the others shrink.

    sign(w) max(|w| - step l1, 0) / (1 + 2 step l2)

    Args:
        w: (...). Returns (...).
        step: the learning rate, at least 0.
    Raises:
        MathsError: w is not floating, or a strength or the step is negative.
    Source:
        Parikh and Boyd 2014, "Proximal Algorithms", section 6.5.3.
    Example:
        elastic_net_prox(array([3.0, -0.5, 0.04]), l1=0.1, l2=0.01, step=1.0)
    """
    return l2_prox(l1_prox(w, strength=l1, step=step), strength=l2, step=step)


def _size(w: Array) -> Array:
    return namespace(w).abs(w)
