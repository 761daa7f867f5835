"""Check that shapes fit the declared axes and each other.

Nothing broadcasts unless its kind allows it. Only shapes are read, never values.
"""

from __future__ import annotations

from typing import Any

from pellucid.errors import MathsError
from pellucid.maths.arrays import Array
from pellucid.maths.door.kinds import ArrayKind, Axes

Shape = tuple[int, ...]


class Lengths:
    """The length of every axis that is known so far, and the shapes of the arguments."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self.leading: Shape | None = None
        self.lengths = dict(numbers)
        self.shapes: dict[Axes, tuple[str, Shape]] = {}

    def expected(self, axes: Axes, shape: Shape) -> Shape:
        """The lengths that the named axes must have; as in `shape` if not known yet."""
        lengths = dict(self.lengths)
        return tuple(
            1 if axis.or_one and length == 1 else lengths.setdefault(axis.name, length)
            for axis, length in zip(axes.trailing, shape, strict=True)
        )

    def take(self, name: str, axes: Axes, shape: Shape) -> None:
        """Learn from an array whose shape fits."""
        self.shapes.setdefault(axes, (name, shape))
        cut = len(shape) - len(axes.trailing)
        if axes.leading and self.leading is None:
            self.leading = shape[:cut]
        for axis, length in zip(axes.trailing, shape[cut:], strict=True):
            if axis.name not in self.lengths and not (axis.or_one and length == 1):
                self.lengths[axis.name] = length


def check_axes(
    arrays: dict[str, Array], kinds: dict[str, ArrayKind], numbers: dict[str, Any]
) -> Lengths:
    """Fix the length of every axis, and refuse an array with another length.

    Arrays that broadcast come last: their shapes do not determine the length of an axis.

    Args:
        arrays: the arguments that are arrays, by name.
        kinds: their declared kinds.
        numbers: the other arguments; a whole number can be the length of an axis.

    Raises:
        MathsError: an array does not have the declared axes.
    """
    lengths = Lengths({name: x for name, x in numbers.items() if type(x) is int})
    for broadcasts in (False, True):
        for name, x in arrays.items():
            axes, shape = kinds[name].axes, tuple(x.shape)
            if kinds[name].broadcasts != broadcasts:
                continue
            if broadcasts:
                _check_broadcast(name, axes, shape, lengths)
            else:
                _check_shape(name, axes, shape, lengths)
                lengths.take(name, axes, shape)
    return lengths


def _check_shape(name: str, axes: Axes, shape: Shape, lengths: Lengths) -> None:
    cut = len(shape) - len(axes.trailing)
    if cut < 0 or (cut and not axes.leading):
        raise MathsError(f"{name} has shape {shape}; {_expected(axes, None, lengths)}")
    leading = lengths.leading if axes.leading and lengths.leading is not None else shape[:cut]
    expected = (*leading, *lengths.expected(axes, shape[cut:]))
    if shape != expected:
        raise MathsError(f"{name} has shape {shape}; {_expected(axes, expected, lengths)}")
    for axis, length in zip(axes.trailing, shape[cut:], strict=True):
        if length < axis.least:
            raise MathsError(
                f"{name} has shape {shape}; {axes} needs at least {axis.least} {axis.name}"
            )


def _check_broadcast(name: str, axes: Axes, shape: Shape, lengths: Lengths) -> None:
    leading = lengths.leading if axes.leading and lengths.leading is not None else ()
    target = (*leading, *(lengths.lengths.get(axis.name, 1) for axis in axes.trailing))
    pairs = zip(reversed(shape), reversed(target), strict=False)
    if len(shape) > len(target) or any(
        own_length not in (1, axis_length) for own_length, axis_length in pairs
    ):
        raise MathsError(
            f"{name} has shape {shape}, which does not broadcast to {target}, that is {axes}: these"
            " shapes do not broadcast together"
        )


def _expected(axes: Axes, expected: Shape | None, lengths: Lengths) -> str:
    """The expected shape in words: the shape of another argument, or lengths and axes."""
    if axes in lengths.shapes:
        name, shape = lengths.shapes[axes]
        return f"it must be the shape of {name}, {shape}"
    return f"it must be {axes}" if expected is None else f"it must be {expected}, that is {axes}"
