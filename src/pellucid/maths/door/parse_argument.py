"""Read single arguments by their declared kind: numbers, words, lists, dtypes of arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import array_api_compat
import numpy as np

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, namespace
from pellucid.maths.door.checks import has_values
from pellucid.maths.door.kinds import ArrayKind, Floats, Number, Wholes, Words, describe, in_range

#: Types that are computed in float32, as `str(dtype)` ends.
_NARROW = ("float16", "bfloat16", "float8_")


def is_array(x: Any) -> bool:
    """Whether x is an array of a library that `maths` supports."""
    return array_api_compat.is_array_api_obj(x)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def is_narrow(dtype: Any) -> bool:
    """Whether a dtype is floating and of 16 bits or fewer."""
    return str(dtype).rpartition(".")[2].startswith(_NARROW)


def read_number(name: str, x: Any, kind: Number) -> Any:
    """A number in its range; a 0-d array counts as a number unless it requires a gradient.

    Raises:
        MathsError: it is no such number; the message names it and the expected numbers.
    """
    if is_array(x) and x.ndim == 0:
        if not has_values(x):
            return x
        if getattr(x, "requires_grad", False):
            raise MathsError(f"{name} carries a gradient; it must be a plain number: take .item()")
        x = x.item() if hasattr(x, "item") else float(x)
    expected = "a whole number" if kind.integer else "a number"
    if isinstance(x, bool) or not isinstance(x, int if kind.integer else int | float):
        raise MathsError(f"{name} is {describe_value(x)}; it must be {expected}")
    if not in_range(x, kind.range):
        words = describe(kind.range)
        raise MathsError(f"{name} must be {words or expected}, was {x}")
    if x in (math.inf, -math.inf) and not kind.infinite:
        raise MathsError(f"{name} must be finite, was {x}")
    if kind.even and x % 2:
        raise MathsError(f"{name} must be even, was {x}")
    return x


def read_flag(name: str, x: Any) -> bool:
    """True or False."""
    if not isinstance(x, bool | np.bool_):
        raise MathsError(f"{name} is {describe_value(x)}; it must be True or False")
    return bool(x)  # pyright: ignore[reportUnknownArgumentType]


def read_word(name: str, x: Any, kind: Words) -> str:
    """One of the words."""
    if not (isinstance(x, str) and x in kind.choices):
        choices = " or ".join(map(repr, kind.choices))
        raise MathsError(f"{name} is {describe_value(x)}; it has to be {choices}")
    return x


def from_python(name: str, x: Any, kind: ArrayKind) -> Array:
    """A NumPy array from a number or nested lists of numbers, in float64 for a kind of floats.

    Raises:
        MathsError: it is something else, or rows differ in length.
    """
    if not isinstance(x, int | float | list | tuple | range):
        raise MathsError(
            f"{name} is {describe_value(x)}; it must be an array, a number, or a list of numbers"
        )
    try:
        array = np.asarray(x)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise MathsError(
            f"{name} is {describe_value(x)} whose rows differ in length; "
            "it must be rows of one length"
        ) from error
    for entry in _entries(x):
        if not isinstance(entry, int | float | np.generic | np.ndarray) or array.dtype == object:
            raise MathsError(
                f"{name} holds {describe_value(entry)}; a list must hold numbers alone"
            )
    if isinstance(kind, Floats):
        numeric = array.size == 0 or array.dtype.kind in ("f" if kind.whole_too else "iuf")
        return array.astype(np.float64) if numeric else array
    if array.size == 0:
        return array.astype(np.int64 if isinstance(kind, Wholes) else np.bool_)
    return array


def _entries(x: Any) -> Iterator[Any]:
    if isinstance(x, list | tuple | range):
        for entry in x:  # pyright: ignore[reportUnknownVariableType]
            yield from _entries(entry)
    else:
        yield x


def check_array(name: str, x: Array, kind: ArrayKind) -> None:
    """Refuse an array with an unexpected dtype or an unsupported layout in memory.

    Raises:
        MathsError: names the array, its dtype or layout, and the fix.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise MathsError(
            f"{name} is {describe_value(x)}; it must be a plain array: convert it first"
        )
    if str(getattr(x, "layout", "torch.strided")) != "torch.strided":
        raise MathsError(f"{name} is {x.layout}; it must be dense: convert it first")
    if getattr(x, "is_nested", False):
        raise MathsError(f"{name} is a nested tensor; its rows must be of one length: pad them")
    xp, dtype = namespace(x), x.dtype
    if isinstance(kind, Floats):
        allowed = ("real floating", "integral") if kind.whole_too else "real floating"
        if not is_narrow(dtype) and not xp.isdtype(dtype, allowed):
            raise MathsError(f"{name} is {dtype}; it must be floating: convert it first")
    elif isinstance(kind, Wholes):
        if is_narrow(dtype) or not xp.isdtype(dtype, "integral"):
            raise MathsError(f"{name} is {dtype}; it must hold whole numbers")
    elif is_narrow(dtype) or not xp.isdtype(dtype, "bool"):
        raise MathsError(f"{name} is {dtype}; it must hold truth values: true for visible keys")


def describe_value(x: Any) -> str:
    """A value for a message: a short one in full, any other by its type."""
    if x is None or isinstance(x, bool | int | float | complex | str):
        text = repr(x)
        return text if len(text) <= 40 else f"{text[:37]}..."
    article = "an" if type(x).__name__[0] in "aeiouAEIOU" else "a"
    return f"{article} {type(x).__name__}"
