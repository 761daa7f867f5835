"""A misread operand: which single number of an exercise, operand, would give the answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid.course.exercises.leaves import (
    Place,
    agrees,
    numbers_by_place,
    place_text,
    short_text,
    with_leaf,
)
from pellucid.course.exercises.types import Exercise, evaluate
from pellucid.errors import MathsError

#: Newton's steps, and the largest number of operands that are tried.
_STEPS, _MAX_TRIED = 6, 16


class Misread(NamedTuple):
    """An operand's number at a place, the value that explains the answer, and the right one."""

    operand: str
    place: Place
    used: float
    right: float

    def __str__(self) -> str:
        return (
            f"your answer is right for {self.operand}{place_text(self.place)} = "
            f"{short_text(self.used)}; it is {short_text(self.right)}"
        )


def find_misread(exercise: Exercise, answer: Any) -> Misread | None:
    """The one number that was read wrong, if another value of it explains the whole answer."""
    if exercise.equation is None:
        return None
    places = [
        (name, place, number)
        for name, value in exercise.operands.items()
        for place, number in numbers_by_place(value).items()
        if isinstance(number, float)
    ]
    for name, place, number in places[:_MAX_TRIED]:
        used = _solve(exercise, answer, name, place, number)
        if used is not None:
            return Misread(name, place, used, number)
    return None


def _solve(exercise: Exercise, answer: Any, name: str, place: Place, number: float) -> float | None:
    """The value of one number for which the equation gives the answer, by Newton's method."""
    goal = np.asarray(list(numbers_by_place(answer).values()), dtype=float)
    if not np.isfinite(goal).all():
        return None
    nudge = 1e-6 * max(1.0, abs(number))
    used = number
    try:
        for _ in range(_STEPS):
            value = _result(exercise, name, place, used)
            if not np.isfinite(value).all():
                return None
            slope = (_result(exercise, name, place, used + nudge) - value) / nudge
            steepness = float(slope @ slope)
            if steepness == 0 or not np.isfinite(steepness):
                return None
            used += float(slope @ (goal - value)) / steepness
            if agrees(answer, _plain(exercise, name, place, used)):
                return used
    except (MathsError, ValueError):  # out of its range, or of another shape
        return None
    return None


def _plain(exercise: Exercise, name: str, place: Place, used: float) -> Any:
    operand = with_leaf(exercise.operands[name], place, used)
    return evaluate(str(exercise.equation), {**exercise.operands, name: operand})


def _result(exercise: Exercise, name: str, place: Place, used: float) -> np.ndarray[Any, Any]:
    return np.asarray(
        list(numbers_by_place(_plain(exercise, name, place, used)).values()), dtype=float
    )
