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


@equation(gate="...", up="...")
def glu(gate: Array, up: Array) -> Array:
    """Numbers times gates between 0 and 1: in a feed-forward, or after the heads of attention.

    y = s(gate) up

    Args:
        gate, up: (...). Returns (...).
    Gradient:
        `glu_grad`.
    Fails:
        A closed gate passes no gradient to what it multiplies.
    Raises:
        MathsError: the two are not floating, or of different shapes.
    Source:
        Dauphin et al. 2017, "Language Modeling with Gated Convolutional Networks", eq. 1; Qiu et
        al. 2025, "Gated Attention for Large Language Models", eq. 5.
    See also:
        `swiglu`, `geglu`.
    Example:
        glu(array([-10.0, 0.0, 10.0]), array([2.0, 2.0, 2.0]))
    """
    return sigmoid(gate) * up


@equation(glu, grad="...")
def glu_grad(gate: Array, up: Array, grad: Array) -> tuple[Array, Array]:
    """The gradients that reach gates and numbers when `grad` reaches their product.

    dgate = g up s (1 - s),  dup = g s

    Args:
        gate, up, grad: (...). Returns dgate, dup.
    """
    return sigmoid_grad(gate, grad * up), grad * sigmoid(gate)


def _below_zero(x: Array) -> Array:
    """-|x|, differentiable at 0 as well."""
    return namespace(x).where(x >= 0, -x, x)
