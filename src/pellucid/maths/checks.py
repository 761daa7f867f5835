"""What equations ask of their arguments; each error says the name, what it was and what it must be.

Comes in: arguments by name. Goes out: nothing, or a `MathsError`. It does not know any formula.

Shapes and dtypes are known while code is compiled or mapped, so they are checked always. Values are
not: they are checked where an equation is called with numbers, and passed over in silence inside
`torch.compile`, `torch.func` and JAX's transformations. Nothing there waits for a device. To check
values all the same, call the equation once outside.
"""

from __future__ import annotations

import sys
from typing import Any

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, namespace

#: How far a sum of probabilities may be from one: rounding in float32, and more in narrower dtypes.
_LEAST_ROUNDING, _MOST_ROUNDING = 1e-6, 0.05


def has_values(x: Array) -> bool:
    """Whether x has numbers now: not while a compiler traces it, nor while it is mapped over."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        wrapped = torch._C._functorch.is_functorch_wrapped_tensor
        return not (torch.compiler.is_compiling() or wrapped(x) or x.is_meta)
    jax: Any = sys.modules.get("jax")
    return jax is None or not isinstance(x, jax.core.Tracer)


def floats(**arrays: Array) -> None:
    """Refuse what is not real and floating."""
    for name, x in arrays.items():
        if not namespace(x).isdtype(x.dtype, "real floating"):
            raise MathsError(f"{name} is {x.dtype}; it must be floating: convert it first")


def whole(**arrays: Array) -> None:
    """Refuse what does not hold whole numbers."""
    for name, x in arrays.items():
        if not namespace(x).isdtype(x.dtype, "integral"):
            raise MathsError(f"{name} is {x.dtype}; it must hold whole numbers")


def truth(**arrays: Array) -> None:
    """Refuse what does not hold truth values."""
    for name, x in arrays.items():
        if not namespace(x).isdtype(x.dtype, "bool"):
            raise MathsError(f"{name} is {x.dtype}; it must hold truth values: true where seen")


def axes(least: int, **arrays: Array) -> None:
    """Refuse fewer axes than `least`."""
    for name, x in arrays.items():
        if x.ndim < least:
            raise MathsError(f"{name} has shape {_shape(x)}; it must have at least {least} axes")


def same_shape(**arrays: Array) -> None:
    """Refuse arrays that are not shaped like the first."""
    (first, like), *rest = arrays.items()
    for name, x in rest:
        if tuple(x.shape) != tuple(like.shape):
            raise MathsError(
                f"{name} has shape {_shape(x)}; it must be that of {first}, {_shape(like)}"
            )


def shaped(*shape: int, **arrays: Array) -> None:
    """Refuse another shape than `shape`."""
    for name, x in arrays.items():
        if tuple(x.shape) != shape:
            raise MathsError(f"{name} has shape {_shape(x)}; it must be {shape}")


def broadcast(**arrays: Array) -> None:
    """Refuse shapes that do not broadcast together."""
    told: dict[str, tuple[int, ...]] = {name: tuple(x.shape) for name, x in arrays.items()}
    for axis in range(1, max(map(len, told.values())) + 1):
        lengths = {shape[-axis] for shape in told.values() if len(shape) >= axis}
        if len(lengths - {1}) > 1:
            shapes = ", ".join(f"{name} {shape}" for name, shape in told.items())
            raise MathsError(f"{shapes}: these shapes do not broadcast together")


def above_zero(**numbers: Any) -> None:
    """Refuse zero, negative and nan; numbers, or arrays of them."""
    for name, x in numbers.items():
        if not _is_number(x) and not has_values(x):
            continue
        good = x > 0
        if not (good if _is_number(x) else bool(namespace(x).all(good))):
            raise MathsError(f"{name} must be greater than 0, was {_told(x)}")


def not_negative(**numbers: Any) -> None:
    """Refuse negative and nan; numbers, or arrays of them."""
    for name, x in numbers.items():
        if not _is_number(x) and not has_values(x):
            continue
        good = x >= 0
        if not (good if _is_number(x) else bool(namespace(x).all(good))):
            raise MathsError(f"{name} must be at least 0, was {_told(x)}")


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


def fraction(**numbers: float) -> None:
    """Refuse what is not in [0, 1]."""
    for name, x in numbers.items():
        if not 0 <= x <= 1:
            raise MathsError(f"{name} must be between 0 and 1, was {x}")


def shares(**arrays: Array) -> None:
    """Refuse entries that are not between 0 and 1."""
    for name, x in arrays.items():
        floats(**{name: x})
        if not has_values(x) or 0 in x.shape:
            continue
        xp, slack = namespace(x), _rounding(x)
        low, high = _number(xp.min(x)), _number(xp.max(x))
        if not (low >= -slack and high <= 1 + slack):
            wrong = high if low >= -slack else low
            raise MathsError(f"{name} holds {wrong:g}; probabilities lie between 0 and 1")


def distribution(**arrays: Array) -> None:
    """Refuse rows (along the last axis) that are no probabilities, or do not sum to one.

    What rounding does to a sum is let through: 1e-6 in float64 and float32, more in 16 bits.
    """
    for name, x in arrays.items():
        axes(1, **{name: x})
        shares(**{name: x})
        if not has_values(x) or 0 in x.shape:
            continue
        xp = namespace(x)
        totals = xp.reshape(xp.sum(x, axis=-1), (-1,))
        worst = _number(totals[int(xp.argmax(xp.abs(totals - 1)))])
        if not abs(worst - 1) <= _rounding(x):
            raise MathsError(
                f"{name} sums to {worst:.6g}; probabilities must sum to 1 along the last axis"
            )


def classes(logits: Array, **arrays: Array) -> None:
    """Refuse targets that are not one whole number in [0, classes) for each row of logits."""
    axes(1, logits=logits)
    shaped(*logits.shape[:-1], **arrays)
    indices(logits.shape[-1], **arrays)


def indices(n: int, **arrays: Array) -> None:
    """Refuse what is not a whole number in [0, n)."""
    whole(**arrays)
    for name, x in arrays.items():
        if not has_values(x) or 0 in x.shape:
            continue
        xp = namespace(x)
        low, high = int(xp.min(x)), int(xp.max(x))
        if low < 0 or high >= n:
            wrong = high if low >= 0 else low
            raise MathsError(f"{name} holds {wrong}; it must hold numbers from 0 to {n - 1}")


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float)


def _number(x: Array) -> float:
    """One value; torch warns of a number that forgets where it came from."""
    return float(x.detach() if hasattr(x, "detach") else x)


def _told(x: Any) -> str:
    return str(x) if _is_number(x) else f"{_number(namespace(x).min(x)):g} at its least"


def _rounding(x: Array) -> float:
    eps = float(namespace(x).finfo(x.dtype).eps)
    return max(_LEAST_ROUNDING, min(128 * eps, _MOST_ROUNDING))


def _shape(x: Array) -> tuple[int, ...]:
    return tuple(x.shape)
