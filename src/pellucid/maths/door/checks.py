"""Checks of values; each error says the argument's name, its value and what it must be.

Shapes and dtypes are known while code is compiled or mapped, so they are always checked. Values are
unknown inside `torch.compile`, `torch.func` and JAX's transformations: there they are not checked,
and nothing waits for a device. To check them anyway, call the equation once outside.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.kinds import Floats, Range, describe, in_range

#: How far a sum of probabilities may be from one: the rounding of float64, and at most of 16 bits.
_LEAST_ROUNDING, _MOST_ROUNDING = 1e-6, 0.05


def has_values(x: Array) -> bool:
    """Whether x has values now: it has none while a compiler traces it or a transform maps it."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor
        return not (torch.compiler.is_compiling() or wrapped(x) or x.is_meta)
    jax: Any = sys.modules.get("jax")
    return jax is None or not isinstance(x, jax.core.Tracer)


def has_nan(x: Array) -> bool:
    """Whether floats hold a nan; False if they have no values now."""
    xp = namespace(x)
    return has_values(x) and bool(xp.any(xp.isnan(x)))


def reach(x: Array) -> tuple[float, float]:
    """The smallest and largest absolute value, without 0 and infinity; 1 and 1 if none is left."""
    xp = namespace(x)
    size = xp.abs(x)
    size = xp.where((size > 0) & xp.isfinite(size), size, xp.ones_like(size))
    return _number(xp.min(size)), _number(xp.max(size))


def check_floats(name: str, x: Array, kind: Floats, *, narrow: bool) -> Array:
    """The array, if its values are allowed.

    Probabilities that rounding left slightly outside [0, 1] are clipped.

    Args:
        name: the argument, for messages.
        x: its values.
        kind: which values are allowed.
        narrow: whether the argument came in 16 bits or fewer, and so is rounded more.

    Raises:
        MathsError: a value is not allowed; the message names it.
    """
    if not has_values(x) or 0 in x.shape:
        return x
    xp = namespace(x)
    low, high = _number(xp.min(x)), _number(xp.max(x))
    if kind.probabilities:
        slack = _MOST_ROUNDING if narrow else _rounding(x)
        _check_shares(name, low, high, slack)
        if kind.sums_to_one:
            _check_sums(name, x, slack)
        return x if low >= 0 and high <= 1 else xp.clip(x, 0, 1)
    if math.isnan(low):
        if not kind.nan:
            raise MathsError(f"{name} holds nan; it must hold numbers")
        return x
    expected = "finite numbers, or -inf where masked" if kind.lowest else "finite numbers"
    if (low == -math.inf and not kind.lowest) or (high == math.inf and not kind.highest):
        raise MathsError(
            f"{name} holds {low if low == -math.inf else high}; it must hold {expected}"
        )
    _check_range(name, low, high, kind.range)
    return x


def check_wholes(name: str, x: Array, range: Range, size: int | None) -> None:
    """Refuse whole numbers outside a range, or indices that are not below `size`.

    Raises:
        MathsError: names the number.
    """
    if not has_values(x) or 0 in x.shape:
        return
    xp = namespace(x)
    low, high = int(xp.min(x)), int(xp.max(x))
    _check_range(name, low, high, range)
    if size is not None and (low < 0 or high >= size):
        wrong = high if low >= 0 else low
        raise MathsError(f"{name} holds {wrong}; it must hold numbers from 0 to {size - 1}")


def _check_range(name: str, low: float, high: float, range: Range) -> None:
    if not in_range(low, range):
        raise MathsError(f"{name} must be {describe(range)}, was {low:g} at its least")
    if not in_range(high, range):
        raise MathsError(f"{name} must be {describe(range)}, was {high:g} at its most")


def _check_shares(name: str, low: float, high: float, slack: float) -> None:
    if not (low >= -slack and high <= 1 + slack):
        wrong = high if low >= -slack else low
        raise MathsError(f"{name} holds {wrong:g}; probabilities lie between 0 and 1")


def _check_sums(name: str, x: Array, slack: float) -> None:
    """Sums may differ from 1 by rounding: 1e-6 in float64, more in float32 and 16 bits."""
    xp = namespace(x)
    totals = xp.reshape(xp.sum(x, axis=-1), (-1,))
    worst = _number(totals[int(xp.argmax(xp.abs(totals - 1)))])
    if not abs(worst - 1) <= slack:
        raise MathsError(
            f"{name} sums to {worst:.6g}; probabilities must sum to 1 along the last axis"
        )


def not_zero(**arrays: Array) -> None:
    """Refuse arrays that hold a zero."""
    for name, x in arrays.items():
        if has_values(x) and bool(namespace(x).any(x == 0)):
            raise MathsError(f"{name} is 0; it is divided by, and must be another number")


def at_least(least: int, **numbers: int) -> None:
    """Refuse numbers below `least`."""
    for name, x in numbers.items():
        if not x >= least:
            raise MathsError(f"{name} must be at least {least}, was {x}")


def divides(n: int, **numbers: int) -> None:
    """Refuse numbers that n does not divide."""
    for name, x in numbers.items():
        if x % n:
            raise MathsError(f"{name} must be a multiple of {n}, was {x}")


def positive_definite(**matrices: Array) -> None:
    """Refuse matrices that are not symmetric or have an eigenvalue that is not above 0."""
    for name, x in matrices.items():
        if not has_values(x) or 0 in x.shape:
            continue
        xp = namespace(x)
        if getattr(x.dtype, "itemsize", 8) > 8:
            raise MathsError(f"{name} is {x.dtype}; linear algebra takes at most float64")
        asymmetry = _number(xp.max(xp.abs(x - xp.matrix_transpose(x))))
        if asymmetry > _rounding(x) * _number(xp.max(xp.abs(x))):
            raise MathsError(f"{name} is not symmetric; a covariance must be symmetric")
        least = _number(xp.min(xp.linalg.eigvalsh(x)))
        if not least > 0:
            raise MathsError(
                f"{name} has the eigenvalue {least:g}; it must be positive definite, with all"
                " eigenvalues above 0"
            )


def _number(x: Array) -> float:
    """One value; detached, because torch warns when a tensor with a gradient becomes a number."""
    return float(x.detach() if hasattr(x, "detach") else x)


def _rounding(x: Array) -> float:
    eps = float(namespace(x).finfo(x.dtype).eps)
    return max(_LEAST_ROUNDING, min(128 * eps, _MOST_ROUNDING))
