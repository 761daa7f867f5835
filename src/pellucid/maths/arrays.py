"""The array libraries: the namespace of an array, and operations that treat 0 and infinity well."""

from __future__ import annotations

from typing import Any

import array_api_compat

#: An array of any library that follows the Python array API standard.
Array = Any


def namespace(*arrays: Array) -> Any:
    """The array API namespace common to `arrays`.

    Raises:
        TypeError: the arrays belong to different libraries, or one of them is not an array.
    """
    return array_api_compat.array_namespace(*arrays)  # pyright: ignore[reportUnknownMemberType]


def device_of(x: Array) -> Any:
    """The device of x; None while a compiler traces it without telling."""
    return getattr(x, "device", None)


def log_of(p: Array) -> Array:
    """log p, and -inf where p is 0."""
    xp = namespace(p)
    nonzero = p != 0
    logarithm = xp.log(xp.where(nonzero, p, xp.ones_like(p)))
    return xp.where(nonzero, logarithm, xp.full_like(p, -xp.inf))


def times(weight: Array, x: Array) -> Array:
    """weight x, and 0 where the weight is 0, even if x is infinite there."""
    xp = namespace(weight, x)
    return weight * xp.where(weight != 0, x, xp.zeros_like(x))


def ratio(numerator: Array, denominator: Array) -> Array:
    """The quotient; 0 where the numerator is 0, and infinite where only the denominator is 0."""
    xp = namespace(numerator, denominator)
    nonzero = denominator != 0
    divided = numerator / xp.where(nonzero, denominator, xp.ones_like(denominator))
    infinite = times(numerator, xp.full_like(denominator, xp.inf))
    return xp.where(nonzero, divided, infinite)
