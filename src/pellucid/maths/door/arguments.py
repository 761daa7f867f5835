"""Read the arguments of an equation: each as its kind, all in one library and one float type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array, device_of, namespace
from pellucid.maths.door.axes import Lengths, check_axes
from pellucid.maths.door.checks import check_floats, check_wholes, has_nan, has_values, reach
from pellucid.maths.door.kinds import ArrayKind, Either, Flag, Floats, Kind, Number, Wholes, Words
from pellucid.maths.door.parse_argument import (
    check_array,
    from_python,
    is_array,
    is_narrow,
    read_flag,
    read_number,
    read_word,
)

#: Beyond these, products of three or four numbers leave float32, so float64 is used.
_SMALL, _LARGE = 1e-9, 1e9
#: Numbers below this, or above its inverse, do not exist in float32.
_LEAST_FLOAT32 = 1e-37


@dataclass(frozen=True, slots=True)
class CheckedArguments:
    """Arguments as the formula takes them; the float types of the input and of the formula."""

    arguments: dict[str, Any]
    xp: Any = None
    input_dtype: Any = None
    dtype: Any = None
    holds_nan: bool = False


def read_arguments(
    values: dict[str, Any], kinds: dict[str, Kind], defaults: dict[str, Any]
) -> CheckedArguments:
    """All arguments, checked and converted.

    Args:
        values: the arguments by name.
        kinds: their declared kinds.
        defaults: the default values of those that have one.

    Raises:
        MathsError: an argument is not of its kind, or they do not fit each other.
    """
    numbers: dict[str, Any] = {}
    array_kinds: dict[str, ArrayKind] = {}
    for name, kind in kinds.items():
        if isinstance(kind, Either):
            kind = kind.array if _like_array(values[name]) else kind.number
        if values[name] is None and defaults.get(name, kind) is None:
            numbers[name] = None
        elif isinstance(kind, Number | Flag | Words):
            numbers[name] = _read(name, values[name], kind)
        else:
            array_kinds[name] = kind
    if not array_kinds:
        return CheckedArguments(numbers)
    arrays = _convert_to_arrays({name: values[name] for name in array_kinds}, array_kinds)
    xp = namespace(*arrays.values())
    lengths = check_axes(arrays, array_kinds, numbers)
    input_dtype = _common_float(xp, arrays, array_kinds)
    arrays, dtype = _widen(xp, arrays, array_kinds, input_dtype, list(numbers.values()))
    for name, kind in array_kinds.items():
        narrow = is_narrow(input_dtype)
        arrays[name] = _check_values(name, arrays[name], kind, lengths, narrow=narrow)
    holds_nan = any(has_nan(x) for name, x in arrays.items() if _may_hold_nan(array_kinds[name]))
    return CheckedArguments(numbers | arrays, xp, input_dtype, dtype, holds_nan)


def _read(name: str, value: Any, kind: Number | Flag | Words) -> Any:
    match kind:
        case Number():
            return read_number(name, value, kind)
        case Flag():
            return read_flag(name, value)
        case Words():
            return read_word(name, value, kind)


def _may_hold_nan(kind: ArrayKind) -> bool:
    return isinstance(kind, Floats) and kind.nan


def _like_array(x: Any) -> bool:
    return isinstance(x, list | tuple) or (is_array(x) and not isinstance(x, np.generic))


def _convert_to_arrays(values: dict[str, Any], kinds: dict[str, ArrayKind]) -> dict[str, Array]:
    """Arrays only: lists become arrays of the other arguments' library, float type and device."""
    ready = {name: x for name, x in values.items() if is_array(x)}
    for name, x in ready.items():
        check_array(name, x, kinds[name])
    _check_one(ready, _library, "library")
    _check_one(ready, _device, "device")
    read: dict[str, Array] = {}
    for name, x in values.items():
        if name in ready:
            read[name] = _plain(x)
            continue
        read[name] = from_python(name, x, kinds[name])
        check_array(name, read[name], kinds[name])
        if ready:
            read[name] = _convert_like(read[name], ready, kinds)
    return read


def _plain(x: Any) -> Array:
    """A NumPy scalar as an array without axes, with the byte order of this machine."""
    array: Any = cast("Any", np.asarray(x)) if isinstance(x, np.generic) else x  # pyright: ignore[reportUnknownArgumentType]
    if getattr(array.dtype, "isnative", True):
        return array
    return array.astype(array.dtype.newbyteorder("="))


def _check_one(ready: dict[str, Array], owner_of: Callable[[Array], str], sort: str) -> None:
    """Refuse arrays of two libraries or on two devices."""
    owners = {name: owner_of(x) for name, x in ready.items()}
    first = next(iter(owners), "")
    for name, owner in owners.items():
        if owner != owners[first]:
            raise MathsError(
                f"{first} is of {owners[first]} and {name} of {owner}; arrays must be of one {sort}"
            )


def _convert_like(x: Array, ready: dict[str, Array], kinds: dict[str, ArrayKind]) -> Array:
    """A NumPy array from a list, as an array like the other arguments."""
    xp = namespace(*ready.values())
    array = xp.asarray(x, device=device_of(next(iter(ready.values()))))
    common = _common_float(xp, ready, kinds)
    return xp.astype(array, common) if x.dtype.kind == "f" and common is not None else array


def _library(x: Array) -> str:
    return namespace(x).__name__.removeprefix("array_api_compat.").partition(".")[0]


def _device(x: Array) -> str:
    """The device of x; for JAX always the same, because JAX moves arrays between devices."""
    return "JAX" if _library(x) == "jax" else str(device_of(x))


def _common_float(xp: Any, arrays: dict[str, Array], kinds: dict[str, ArrayKind]) -> Any:
    """The library's common floating type of all arrays."""
    dtypes = [x.dtype for name, x in arrays.items() if _floating(xp, x, kinds[name])]
    if all(dtype == dtypes[0] for dtype in dtypes):
        return dtypes[0] if dtypes else None
    return xp.result_type(*(xp.float32 if is_narrow(dtype) else dtype for dtype in dtypes))


def _floating(xp: Any, x: Array, kind: ArrayKind) -> bool:
    return isinstance(kind, Floats) and not xp.isdtype(x.dtype, "integral")


def _widen(
    xp: Any,
    arrays: dict[str, Array],
    kinds: dict[str, ArrayKind],
    input_dtype: Any,
    numbers: list[Any],
) -> tuple[dict[str, Array], Any]:
    """Floats in one type: the input's, float32 if that is narrower, or float64 at extremes."""
    if input_dtype is None:
        return arrays, None
    wide = xp.float32 if is_narrow(input_dtype) else input_dtype
    floats = {name: x for name, x in arrays.items() if _floating(xp, x, kinds[name])}
    cast = {name: _cast(xp, x, wide) for name, x in floats.items()}
    if wide == xp.float32 and _has_float64(xp, next(iter(cast.values()))):
        extremes = [reach(x) for x in cast.values() if has_values(x) and 0 not in x.shape]
        if any(least < _SMALL or largest > _LARGE for least, largest in extremes) or any(
            isinstance(x, float) and x and not _LEAST_FLOAT32 < abs(x) < 1 / _LEAST_FLOAT32
            for x in numbers
        ):
            wide = xp.float64
            cast = {name: _cast(xp, x, wide) for name, x in floats.items()}
    return {**arrays, **cast}, wide


def _cast(xp: Any, x: Array, dtype: Any) -> Array:
    return x if x.dtype == dtype else xp.astype(x, dtype)


def _has_float64(xp: Any, x: Array) -> bool:
    return "jax" not in xp.__name__ and "mps" not in str(device_of(x))


def _check_values(name: str, x: Array, kind: ArrayKind, lengths: Lengths, *, narrow: bool) -> Array:
    """The array with its values checked; whole numbers in a type that the library indexes with."""
    if isinstance(kind, Floats):
        return check_floats(name, x, kind, narrow=narrow)
    if not isinstance(kind, Wholes):
        return x
    check_wholes(name, x, kind.range, None if kind.size is None else lengths.lengths[kind.size])
    xp = namespace(x)
    if kind.size is not None and "torch" in xp.__name__:
        return _cast(xp, x, xp.int64)
    if x.dtype in (xp.int32, xp.int64):
        return x
    small = x.dtype in (xp.int8, xp.int16, xp.uint8, xp.uint16)
    return _cast(xp, x, xp.int32 if small else xp.int64)
