"""The error function, for array libraries that have none."""

from __future__ import annotations

import math

from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.equation import equation
from pellucid.maths.door.kinds import extended

#: Above this |x| the fraction replaces the series; the terms that each needs for 1e-16 there.
_MEETING, _SERIES_TERMS, _FRACTION_TERMS = 2.0, 40, 60
#: 1 - erf(6) is 2e-17: in float64 erf is 1 from here on.
_END = 6.0


@equation(x=extended("..."))
def erf(x: Array) -> Array:
    """The probability that a Gaussian with variance 1/2 lies within x of its mean, with x's sign.

    erf(x) = 2 / sqrt(pi) integral_0^x exp(-t^2) dt

    Up to |x| = 2 it sums a series whose terms all have the same sign,
    exp(-x^2) 2 / sqrt(pi) sum_n 2^n x^(2n + 1) / (1 3 5 ... (2n + 1)). Above that it uses the
    continued fraction of 1 - erf. The error is below 1e-15 in float64. For torch tensors it calls
    torch's own function.

    Args:
        x: (...). Returns (...).
    Gradient:
        `erf_grad`.
    Fails:
        1 - erf(x) has no correct digits left above x = 6.
    Raises:
        MathsError: x is not floating.
    Source:
        Abramowitz and Stegun 1964, "Handbook of Mathematical Functions", eq. 7.1.6 and 7.1.14.
    Example:
        erf(array([-1.0, 0.0, 0.5, 3.0]))
    """
    xp = namespace(x)
    if hasattr(xp, "erf"):
        return xp.erf(x)
    zero, ones = xp.zeros_like(x), xp.ones_like(x)
    size = xp.where(x < 0, -x, x)
    is_small = size < _MEETING
    outer = 1 - _fraction(
        xp.where(is_small, ones * _MEETING, xp.where(size < _END, size, ones * _END))
    )
    sign = xp.where(x < 0, -ones, ones)
    return xp.where(is_small, _series(xp.where(is_small, x, zero)), sign * outer)


def _series(x: Array) -> Array:
    """The series, from its last term to its first."""
    total = namespace(x).ones_like(x)
    for n in range(_SERIES_TERMS, 0, -1):
        total = 1 + total * (2 * x**2 / (2 * n + 1))
    return 2 / math.sqrt(math.pi) * namespace(x).exp(-(x**2)) * x * total


def _fraction(x: Array) -> Array:
    """1 - erf by exp(-x^2) / sqrt(pi) / (x + (1/2) / (x + (2/2) / (x + (3/2) / ...)))."""
    denominator = x
    for n in range(_FRACTION_TERMS, 0, -1):
        denominator = x + (n / 2) / denominator
    return namespace(x).exp(-(x**2)) / (math.sqrt(math.pi) * denominator)


@equation(erf, grad="...")
def erf_grad(x: Array, grad: Array) -> Array:
    """The gradient that reaches x when `grad` reaches its error function.

    d erf / dx = 2 / sqrt(pi) exp(-x^2)

    Args:
        x, grad: (...). Returns (...).
    """
    return grad * 2 / math.sqrt(math.pi) * namespace(x).exp(-(x**2))
