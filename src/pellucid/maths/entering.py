"""How arguments come through the door: each read as its kind, all of one library and one width.

Comes in: arguments as they were given, and their kinds. Goes out: arrays and numbers that a bare
formula can take, or a `MathsError`. It does not know any formula.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.axes import Lengths, check_axes
from pellucid.maths.checks import check_floats, check_wholes, has_nan, has_values, reach
from pellucid.maths.kinds import ArrayKind, Either, Flag, Floats, Kind, Number, Wholes, Words
from pellucid.maths.reading import (
    check_array,
    from_python,
    is_array,
    is_narrow,
    read_flag,
    read_number,
    read_word,
)

#: Beyond these, products of three or four numbers leave float32: they are computed in float64.
_SMALL, _LARGE = 1e-9, 1e9
#: Numbers below this, or above its inverse, are none in float32.
_LEAST_FLOAT32 = 1e-37


@dataclass(frozen=True, slots=True)
class Entered:
    """Arguments as the formula takes them; the floating type that came, and the one computed in."""

    arguments: dict[str, Any]
    xp: Any = None
    came: Any = None
    computed: Any = None
    holds_nan: bool = False


def enter(given: dict[str, Any], kinds: dict[str, Kind], defaults: dict[str, Any]) -> Entered:
    """All arguments, checked and converted."""
    numbers: dict[str, Any] = {}
    array_kinds: dict[str, ArrayKind] = {}
    for name, kind in kinds.items():
        if given[name] is None and name in defaults and defaults[name] is None:
            numbers[name] = None
            continue
        if isinstance(kind, Either):
            kind = kind.array if _like_array(given[name]) else kind.number
        if isinstance(kind, Number):
            numbers[name] = read_number(name, given[name], kind)
        elif isinstance(kind, Flag):
            numbers[name] = read_flag(name, given[name])
        elif isinstance(kind, Words):
            numbers[name] = read_word(name, given[name], kind)
        else:
            array_kinds[name] = kind
    if not array_kinds:
        return Entered(numbers)
    arrays = _of_one_library({name: given[name] for name in array_kinds}, array_kinds)
    xp = namespace(*arrays.values())
    lengths = check_axes(arrays, array_kinds, numbers)
    came = _common_float(xp, arrays, array_kinds)
    arrays, computed = _widened(xp, arrays, array_kinds, came, list(numbers.values()))
    arrays = {
        name: _of_value(name, x, array_kinds[name], lengths, xp, came) for name, x in arrays.items()
    }
    values = {**numbers, **arrays}
    holds_nan = any(has_nan(x) for name, x in arrays.items() if _may_hold_nan(array_kinds[name]))
    return Entered({name: values[name] for name in kinds}, xp, came, computed, holds_nan)


def _may_hold_nan(kind: ArrayKind) -> bool:
    return isinstance(kind, Floats) and kind.nan


def _like_array(x: Any) -> bool:
    return isinstance(x, list | tuple) or (is_array(x) and not isinstance(x, np.generic))


def _of_one_library(given: dict[str, Any], kinds: dict[str, ArrayKind]) -> dict[str, Array]:
    """Arrays alone: lists become arrays of the library, the width and the device of the others."""
    came = {name: x for name, x in given.items() if is_array(x)}
    for name, x in came.items():
        check_array(name, x, kinds[name])
    _check_one(came, _library, "library")
    _check_one(came, _device, "device")
    read: dict[str, Array] = {}
    for name, x in given.items():
        if name in came:
            # a NumPy scalar is an array without axes
            read[name] = np.asarray(x) if isinstance(x, np.generic) else x  # pyright: ignore[reportUnknownArgumentType]
            continue
        read[name] = from_python(name, x, kinds[name])
        check_array(name, read[name], kinds[name])
        if came:
            read[name] = _like(read[name], came, kinds)
    return read


def _check_one(came: dict[str, Array], what_of: Callable[[Array], str], what: str) -> None:
    """Refuse arrays of two libraries, or on two devices."""
    places = {name: what_of(x) for name, x in came.items()}
    first = next(iter(places), "")
    for name, place in places.items():
        if place != places[first]:
            raise MathsError(
                f"{first} is of {places[first]} and {name} of {place}; arrays must be of one {what}"
            )


def _like(x: Array, came: dict[str, Array], kinds: dict[str, ArrayKind]) -> Array:
    """A NumPy array that was a list, as an array like those that came."""
    xp = namespace(*came.values())
    made = xp.asarray(x, device=device_of(next(iter(came.values()))))
    common = _common_float(xp, came, kinds)
    return xp.astype(made, common) if x.dtype.kind == "f" and common is not None else made


def _library(x: Array) -> str:
    return namespace(x).__name__.removeprefix("array_api_compat.").partition(".")[0]


def _device(x: Array) -> str:
    return str(device_of(x))


def _common_float(xp: Any, arrays: dict[str, Array], kinds: dict[str, ArrayKind]) -> Any:
    """The floating type that the library makes of all that came."""
    dtypes = [x.dtype for name, x in arrays.items() if _floating(xp, x, kinds[name])]
    if all(dtype == dtypes[0] for dtype in dtypes):
        return dtypes[0] if dtypes else None
    return xp.result_type(*(xp.float32 if is_narrow(dtype) else dtype for dtype in dtypes))


def _floating(xp: Any, x: Array, kind: ArrayKind) -> bool:
    return isinstance(kind, Floats) and not xp.isdtype(x.dtype, "integral")


def _widened(
    xp: Any, arrays: dict[str, Array], kinds: dict[str, ArrayKind], came: Any, numbers: list[Any]
) -> tuple[dict[str, Array], Any]:
    """Floats in one type: that which came, float32 where it is narrower, or float64 at extremes."""
    if came is None:
        return arrays, None
    wide = xp.float32 if is_narrow(came) else came
    of_float = {name: x for name, x in arrays.items() if _floating(xp, x, kinds[name])}
    cast = {name: _cast(xp, x, wide) for name, x in of_float.items()}
    if wide == xp.float32 and _has_float64(xp, next(iter(cast.values()))):
        extremes = [reach(x) for x in cast.values() if has_values(x) and 0 not in x.shape]
        if any(least < _SMALL or largest > _LARGE for least, largest in extremes) or any(
            isinstance(x, float) and x and not _LEAST_FLOAT32 < abs(x) < 1 / _LEAST_FLOAT32
            for x in numbers
        ):
            wide = xp.float64
            cast = {name: _cast(xp, x, wide) for name, x in of_float.items()}
    return {**arrays, **cast}, wide


def _cast(xp: Any, x: Array, dtype: Any) -> Array:
    return x if x.dtype == dtype else xp.astype(x, dtype)


def _has_float64(xp: Any, x: Array) -> bool:
    return "jax" not in xp.__name__ and "mps" not in str(device_of(x))


def _of_value(name: str, x: Array, kind: ArrayKind, lengths: Lengths, xp: Any, came: Any) -> Array:
    """The array, its values looked at; ids in the type that the library indexes with."""
    if isinstance(kind, Floats):
        return check_floats(name, x, kind, narrow=is_narrow(came))
    if not isinstance(kind, Wholes):
        return x
    below = None if kind.below is None else lengths.lengths[kind.below]
    check_wholes(name, x, kind.range, below)
    wide = x.dtype == xp.int64 or (x.dtype == xp.int32 and "torch" not in xp.__name__)
    narrow = x.dtype in (xp.int8, xp.int16, xp.uint8, xp.uint16) and "torch" not in xp.__name__
    return x if wide else xp.astype(x, xp.int32 if narrow else xp.int64)
