"""Activations: without a nonlinear function between them, two matrices would be one."""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import extended
from pellucid.maths.error_function import erf
from pellucid.maths.logistic import sigmoid, sigmoid_grad

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
#: The constants of GELU's approximation by tanh.
_INNER, _CUBIC = math.sqrt(2 / math.pi), 0.044715
#: The steepness of its approximation by a sigmoid.
_STEEP = 1.702


@equation(x=extended("..."))
def relu(x: Array) -> Array:
    """Negative numbers become 0, positive numbers pass.

    y = max(x, 0)

    Args:
        x: (...). Returns (...).
    Gradient:
        `relu_grad`.
    Fails:
        A unit that is negative for every input has no gradient and stays dead.
    Raises:
        MathsError: x is not floating.
    Source:
        Nair and Hinton 2010, "Rectified Linear Units Improve Restricted Boltzmann Machines",
        section 2.
    Example:
        relu(array([-2.0, 0.0, 3.0]))
    """
    xp = namespace(x)
    return xp.where(x > 0, x, xp.zeros_like(x))


@equation(relu, grad="...")
def relu_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches x when `grad` reaches its ReLU; at 0 the subgradient 0.

    dy/dx = 1 where x > 0, else 0

    Args:
        x, grad: (...). Returns (...).
    """
    xp = namespace(x, grad)
    return xp.where(x > 0, grad, xp.zeros_like(grad))


@equation(x=extended("..."))
def relu_squared(x: Array) -> Array:
    """Negative numbers become 0, positive numbers are squared.

    y = max(x, 0)^2

    Args:
        x: (...). Returns (...).
    Gradient:
        `relu_squared_grad`.
    Fails:
        It grows quadratically: in float16 it overflows at x = 256.
    Raises:
        MathsError: x is not floating.
    Source:
        So et al. 2021, "Primer: Searching for Efficient Transformers for Language Modeling",
        section 3.2.
    Example:
        relu_squared(array([-2.0, 0.5, 3.0]))
    """
    return relu(x) ** 2


@equation(x="...", grad="...")
def relu_squared_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches x when `grad` reaches its squared ReLU.

    dy/dx = 2 max(x, 0)

    Args:
        x, grad: (...). Returns (...).
    """
    return 2 * relu(x) * grad


@equation(x="...")
def gelu(x: Array) -> Array:
    """x times the probability that a standard Gaussian is below x.

    y = x Phi(x) = x (1 + erf(x / sqrt 2)) / 2

    Args:
        x: (...). Returns (...).
    Gradient:
        `gelu_grad`.
    Fails:
        It is not monotonic: its minimum is -0.17, at x = -0.75.
    Raises:
        MathsError: x is not floating.
    Source:
        Hendrycks and Gimpel 2016, "Gaussian Error Linear Units (GELUs)", section 2.
    See also:
        `gelu_tanh`, which GPT-2 uses.
    Example:
        gelu(array([-2.0, -0.75, 0.0, 1.0]))
    """
    return x * _normal_cdf(x)


@equation(gelu, grad="...")
def gelu_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches x when `grad` reaches its GELU.

    dy/dx = Phi(x) + x phi(x),  phi(x) = exp(-x^2 / 2) / sqrt(2 pi)

    Args:
        x, grad: (...). Returns (...).
    """
    density = namespace(x).exp(-(x**2) / 2) / _ROOT_TWO_PI
    return grad * (_normal_cdf(x) + x * density)


def _normal_cdf(x: Array) -> Array:
    return (1 + erf(x / math.sqrt(2))) / 2


@equation(x="...")
def gelu_tanh(x: Array) -> Array:
    """GELU approximated with tanh, within 5e-4 everywhere.

    y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2

    Args:
        x: (...). Returns (...).
    Gradient:
        `gelu_tanh_grad`.
    Fails:
        If a model was trained with `gelu`, this changes the output of every layer a little.
    Raises:
        MathsError: x is not floating.
    Source:
        Hendrycks and Gimpel 2016, "Gaussian Error Linear Units (GELUs)", section 2.
    Example:
        gelu_tanh(array([-2.0, -0.75, 0.0, 1.0])) - gelu(array([-2.0, -0.75, 0.0, 1.0]))
    """
    return x * (1 + namespace(x).tanh(_INNER * (x + _CUBIC * x**3))) / 2


@equation(gelu_tanh, grad="...")
def gelu_tanh_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches x when `grad` reaches `gelu_tanh`.

    dy/dx = (1 + t) / 2 + x (1 - t^2) sqrt(2 / pi) (1 + 0.134145 x^2) / 2,  t the tanh

    Args:
        x, grad: (...). Returns (...).
    """
    xp = namespace(x, grad)
    # beyond 10 the tanh is flat, and a cube may overflow
    x = xp.clip(x, -10, 10)
    t = xp.tanh(_INNER * (x + _CUBIC * x**3))
    bend = x * (1 - t**2) * _INNER * (1 + 3 * _CUBIC * x**2)
    return grad * (1 + t + bend) / 2


@equation(x="...")
def quick_gelu(x: Array) -> Array:
    """GELU approximated with a sigmoid, within 0.021 everywhere.

    y = x s(1.702 x)

    Args:
        x: (...). Returns (...).
    Gradient:
        `quick_gelu_grad`.
    Fails:
        If a model was trained with `gelu`, this changes the output of every layer.
    Raises:
        MathsError: x is not floating.
    Source:
        Hendrycks and Gimpel 2016, "Gaussian Error Linear Units (GELUs)", section 2.
    See also:
        `silu`: y = silu(1.702 x) / 1.702.
    Example:
        quick_gelu(array([-2.0, -0.75, 0.0, 1.0])) - gelu(array([-2.0, -0.75, 0.0, 1.0]))
    """
    return x * sigmoid(_STEEP * x)


@equation(quick_gelu, grad="...")
def quick_gelu_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches x when `grad` reaches `quick_gelu`.

    dy/dx = s (1 + 1.702 x (1 - s)),  s = s(1.702 x)

    Args:
        x, grad: (...). Returns (...).
    """
    return silu_grad(_STEEP * x, grad)


@equation(x=extended("..."))
def tanh(x: Array) -> Array:
    """A number mapped into (-1, 1): a sigmoid of twice the number, stretched.

    y = (exp(x) - exp(-x)) / (exp(x) + exp(-x)) = 2 s(2x) - 1

    Args:
        x: (...). Returns (...).
    Gradient:
        `tanh_grad`.
    Fails:
        It is flat far from 0: beyond |x| = 5 less than 2e-4 of a gradient passes.
    Raises:
        MathsError: x is not floating.
    Source:
        LeCun et al. 1998, "Efficient BackProp", section 4.4.
    Example:
        tanh(array([-1000.0, -1.0, 0.0, 1.0, 1000.0]))
    """
    return namespace(x).tanh(x)


@equation(tanh, grad="...")
def tanh_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches x when `grad` reaches its tanh.

    dy/dx = 4 s(2x) (1 - s(2x)) = 1 - y^2

    Args:
        x, grad: (...). Returns (...).
    """
    # 1 - y^2 would round to 0 where the slope is small
    return 4 * sigmoid_grad(2 * x, grad)


@equation(x="...")
def silu(x: Array) -> Array:
    """x times its sigmoid: like ReLU, but smooth and slightly negative below 0; also called swish.

    y = x s(x)

    Args:
        x: (...). Returns (...).
    Gradient:
        `silu_grad`.
    Fails:
        It is not monotonic: its minimum is -0.28, at x = -1.28.
    Raises:
        MathsError: x is not floating.
    Source:
        Elfwing, Uchibe and Doya 2018, "Sigmoid-Weighted Linear Units for Neural Network Function
        Approximation in Reinforcement Learning", eq. 1.
    Example:
        silu(array([-2.0, -1.28, 0.0, 1.0]))
    """
    return x * sigmoid(x)


@equation(silu, grad="...")
def silu_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches x when `grad` reaches its SiLU.

    dy/dx = s (1 + x (1 - s))

    Args:
        x, grad: (...). Returns (...).
    """
    s = sigmoid(x)
    return grad * s * (1 + x * (1 - s))
