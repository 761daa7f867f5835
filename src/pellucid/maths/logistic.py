"""The sigmoid and its logarithm: the softmax of two classes when one score is 0."""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import extended


@equation(x=extended("..."))
def sigmoid(x: Array) -> Array:
    """A number mapped into (0, 1): the probability whose log odds are x.

    s(x) = 1 / (1 + exp(-x))

    For negative x, exp(x) / (1 + exp(x)), so that no exponential overflows.

    Args:
        x: (...). Returns (...).
    Gradient:
        `sigmoid_grad`.
    Fails:
        It is flat far from 0: beyond |x| = 10 less than 5e-5 of a gradient passes.
    Raises:
        MathsError: x is not floating.
    Source:
        Bishop 2006, "Pattern Recognition and Machine Learning", eq. 4.59.
    Example:
        sigmoid(array([-1000.0, -1.0, 0.0, 1.0, 1000.0]))
    """
    xp = namespace(x)
    small = xp.exp(_below_zero(x))
    return xp.where(x >= 0, xp.ones_like(x), small) / (1 + small)


@equation(sigmoid, grad="...")
def sigmoid_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches x when `grad` reaches its sigmoid.

    ds/dx = s (1 - s)

    Args:
        x: (...). grad: (...). Returns (...).
    """
    small = namespace(x, grad).exp(_below_zero(x))
    return grad * small / (1 + small) ** 2


@equation(x=extended("..."))
def softplus(x: Array) -> Array:
    """A smooth ReLU; also the cross-entropy of the log odds x when the answer is no.

    log(1 + exp(x)) = -log s(-x)

    Args:
        x: (...). Returns (...).
    Units:
        Nats.
    Gradient:
        `softplus_grad`.
    Fails:
        Computed literally, exp(x) overflows at x = 710 in float64 and at 89 in float32.
    Raises:
        MathsError: x is not floating.
    Source:
        Dugas et al. 2001, "Incorporating Second-Order Functional Knowledge for Better Option
        Pricing", eq. 3.
    Example:
        softplus(array([-1000.0, 0.0, 1000.0]))
    """
    xp = namespace(x)
    return xp.where(x >= 0, x, xp.zeros_like(x)) + xp.log1p(xp.exp(_below_zero(x)))


@equation(softplus, grad="...")
def softplus_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches x when `grad` reaches its softplus.

    dy/dx = s(x)

    Args:
        x: (...). grad: (...). Returns (...).
    """
    return grad * sigmoid(x)


def _below_zero(x: Array) -> Array:
    """-|x|, differentiable at 0 as well."""
    return namespace(x).where(x >= 0, -x, x)
