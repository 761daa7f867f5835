"""What zero means where probabilities are multiplied, divided and logged.

Comes in: arrays. Goes out: arrays in which 0 log 0 is 0 and log 0 is -inf, without a warning, and
without nan in a gradient that flows through them. It does not know what the arrays are of.
"""

from __future__ import annotations

from pellucid.maths.arrays import Array, namespace


def log_of(p: Array) -> Array:
    """log p, and -inf where p is 0."""
    xp = namespace(p)
    nonzero = p != 0
    logarithm = xp.log(xp.where(nonzero, p, xp.ones_like(p)))
    return xp.where(nonzero, logarithm, xp.full_like(p, -xp.inf))


def times(weight: Array, x: Array) -> Array:
    """weight x, and 0 where the weight is 0, though x be infinite there."""
    xp = namespace(weight, x)
    return weight * xp.where(weight != 0, x, xp.zeros_like(x))


def ratio(numerator: Array, denominator: Array) -> Array:
    """The quotient; 0 where the numerator is 0, and an infinity where only the denominator is."""
    xp = namespace(numerator, denominator)
    nonzero = denominator != 0
    divided = numerator / xp.where(nonzero, denominator, xp.ones_like(denominator))
    infinite = times(numerator, xp.full_like(denominator, xp.inf))
    return xp.where(nonzero, divided, infinite)
