"""Nested lists of numbers as flat tables, and the comparison of two of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

#: An answer is right within this share of each number, and this share of the largest.
RELATIVE, OF_LARGEST = 1e-3, 1e-5
#: A number's place in nested lists.
Place = tuple[int, ...]


def plain(value: Any) -> Any:
    """Arrays, scalars and tuples of them as nested lists of Python's numbers."""
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]  # pyright: ignore[reportUnknownVariableType]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """A tensor as an array in float64."""
    return tensor.detach().cpu().double().numpy()


def rounded(number: float) -> float:
    """A number with three digits."""
    return float(f"{number:.3g}")


def numbers_by_place(value: Any) -> dict[Place, float]:
    """Each number of nested lists by its place."""
    return dict(_walk(value, ()))


def _walk(value: Any, place: Place) -> Iterator[tuple[Place, float]]:
    if isinstance(value, list):
        for index, part in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from _walk(part, (*place, index))
    else:
        yield place, value


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array or of nested lists; ValueError if rows have several lengths."""
    return np.shape(value)


def shape_text(value: Any) -> str:
    """The shape of nested lists, in words."""
    if not isinstance(value, list):
        return "one number"
    try:
        return f"shape {shape_of(value)}"
    except ValueError:  # rows of several lengths
        return "rows of several lengths"


def place_text(place: Place) -> str:
    """A place as Python spells it: [1][0]."""
    return "".join(f"[{index}]" for index in place)


def tolerance(right: Any) -> float:
    """The absolute part of the tolerance: 0 if the answer has whole numbers only."""
    numbers = list(numbers_by_place(right).values())
    if all(isinstance(number, int) for number in numbers):
        return 0.0
    finite = [abs(number) for number in numbers if math.isfinite(number)]
    return OF_LARGEST * max(finite, default=0.0) or 1e-9


def differing(answer: Any, right: Any) -> list[Place] | None:
    """The places at which two nested lists differ; None if they have different shapes."""
    answered, expected = numbers_by_place(answer), numbers_by_place(right)
    if len(answered) == len(expected) == 1:  # a number may stand for a list of one
        answered = dict(zip(expected, answered.values(), strict=True))
    if answered.keys() != expected.keys():
        return None
    allowed = tolerance(right)
    return [place for place in expected if not is_close(answered[place], expected[place], allowed)]


def agrees(answer: Any, right: Any) -> bool:
    """Whether an answer is right within the tolerance."""
    return differing(answer, right) == []


def is_close(number: float, right: float, allowed: float) -> bool:
    """Whether one number is right; infinite and whole ones have to be equal."""
    if number == right:
        return True
    if not allowed or not math.isfinite(right) or not math.isfinite(number):
        return False
    return abs(number - right) <= RELATIVE * abs(right) + allowed


def with_leaf(value: Any, place: Place, number: float) -> Any:
    """A copy of nested lists with one number replaced."""
    if not place:
        return number
    first, *tail = place
    return [
        with_leaf(part, tuple(tail), number) if index == first else part
        for index, part in enumerate(value)
    ]


def short_text(value: Any) -> str:
    """Nested lists with four digits."""
    if isinstance(value, list):
        return f"[{', '.join(map(short_text, value))}]"  # pyright: ignore[reportUnknownArgumentType]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def operand_text(operands: Mapping[str, Any]) -> str:
    """Operands in one line."""
    return ", ".join(f"{name} = {short_text(value)}" for name, value in operands.items())
