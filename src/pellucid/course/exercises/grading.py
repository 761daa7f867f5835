"""Grade an answer: right within the tolerance, or wrong with the reason and the operand."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pellucid.course.exercises.code import grade_code
from pellucid.course.exercises.leaves import (
    RELATIVE,
    agrees,
    differing,
    numbers_by_place,
    operand_text,
    place_text,
    shape_text,
    short_text,
    tolerance,
)
from pellucid.course.exercises.misread import find_misread
from pellucid.course.exercises.mistakes import operand_note, recognise
from pellucid.course.exercises.types import Exercise, Verdict
from pellucid.errors import PellucidError
from pellucid.reader import parse_json, short
from pellucid.textbook import entry

#: Numbers that JSON cannot spell, as pellucid writes them.
_NUMBER_TEXTS = ("inf", "-inf")
_DEFINITION = re.compile(r"^def ", re.MULTILINE)
#: How deep lists may be nested: no equation gives so many axes.
_DEEPEST = 16


def grade_all(exercises: Sequence[Exercise], answers: Mapping[str, Any]) -> dict[str, Verdict]:
    """The verdict on each answer.

    Raises:
        PellucidError: there is no such exercise, or an answer is of another type.
    """
    by_id = {exercise.id: exercise for exercise in exercises}
    for name in answers:
        if name not in by_id:
            raise PellucidError(
                f"there is no exercise {short(name)} in this lesson; it has: {', '.join(by_id)}"
            )
    return {name: grade(by_id[name], answer) for name, answer in answers.items()}


def parse_answer(exercise: Exercise, words: str) -> Any:
    """An answer that was typed: a letter or a choice, numbers as JSON, or code.

    Raises:
        PellucidError: it is none of them.
    """
    words = words.strip()
    if exercise.kind == "choice" or words in _NUMBER_TEXTS or _DEFINITION.search(words):
        return words
    try:
        return parse_json(words, "your answer", lenient=True)
    except PellucidError:
        raise PellucidError(
            f"exercise {exercise.id}: expected {_expected(exercise)}, such as [1.2, 3.4]; was "
            f"{short(words)}"
        ) from None


def is_code(exercise: Exercise, answer: Any) -> bool:
    """Whether an answer would be run."""
    return exercise.kind != "choice" and isinstance(answer, str) and answer not in _NUMBER_TEXTS


def grade(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on one answer.

    Raises:
        PellucidError: the answer is of another type than the exercise takes.
    """
    if exercise.kind == "choice":
        return _grade_choice(exercise, answer)
    if is_code(exercise, answer):
        if exercise.equation is None or f"def {exercise.equation}" not in answer:
            raise PellucidError(
                f"exercise {exercise.id}: expected {_expected(exercise)}, was {short(answer)}"
            )
        return grade_code(exercise, answer)
    return _grade_number(exercise, _read_numbers(exercise, answer))


def _expected(exercise: Exercise) -> str:
    numbers = "a number" if not isinstance(exercise.right, list) else "nested lists of numbers"
    if exercise.equation is None:
        return numbers
    return f"{numbers}, or Python code with `def {exercise.equation}(...)`"


def _grade_choice(exercise: Exercise, answer: Any) -> Verdict:
    texts = list(exercise.choices)
    letters = {chr(ord("a") + place): text for place, text in enumerate(texts)}
    text = letters.get(answer.strip().lower(), answer.strip()) if isinstance(answer, str) else None
    if text not in texts:
        raise PellucidError(
            f"exercise {exercise.id}: expected one of {', '.join(letters)} or the text of a "
            f"choice, was {short(answer)}"
        )
    return Verdict(accepted=text == exercise.right, explanation=exercise.choices[text])


def _read_numbers(exercise: Exercise, answer: Any, depth: int = 0) -> Any:
    """An answer with every entry a number; refuses everything else."""
    if isinstance(answer, list) and answer and depth < _DEEPEST:
        entries = cast("list[Any]", answer)
        return [_read_numbers(exercise, part, depth + 1) for part in entries]
    if isinstance(answer, str) and answer in _NUMBER_TEXTS:
        return float(answer)
    if isinstance(answer, bool):
        takes_truths = any(
            isinstance(part, bool) for part in numbers_by_place(exercise.right).values()
        )
        if takes_truths:
            return answer
    elif isinstance(answer, int | float) and not math.isnan(answer):
        return answer
    shown_answer = short(cast("object", answer))
    raise PellucidError(
        f"exercise {exercise.id}: expected {_expected(exercise)}, was {shown_answer}"
    )


def _grade_number(exercise: Exercise, answer: Any) -> Verdict:
    right = exercise.right
    if agrees(answer, right):
        return Verdict(accepted=True, explanation=f"right: it is {short_text(right)}")
    if mistake := recognise(exercise, answer):
        notes = (mistake.text, operand_note(exercise, mistake.operand))
        return _wrong(exercise, [note for note in notes if note], mistake.operand)
    places = differing(answer, right)
    if places is None:
        text = f"your answer has {shape_text(answer)}; expected {shape_text(right)}"
        return _wrong(exercise, [text], None)
    if misread := find_misread(exercise, answer):
        return _wrong(exercise, [str(misread)], misread.operand)
    return _wrong(exercise, [_first_difference(answer, right, len(places), places[0])], None)


def _first_difference(answer: Any, right: Any, count: int, place: tuple[int, ...]) -> str:
    n_numbers = len(numbers_by_place(right))
    numbers = numbers_by_place(answer)
    if n_numbers == 1:
        return (
            f"{short_text(next(iter(numbers.values())))} is not the value, and no typical mistake"
        )
    return (
        f"{count} of {n_numbers} numbers differ, the first at {place_text(place)}: "
        f"{short_text(numbers[place])} is not it"
    )


def _wrong(exercise: Exercise, notes: list[str], operand: str | None) -> Verdict:
    """The verdict on a wrong answer; without a known operand the first one is where to begin."""
    if exercise.equation is not None:
        if operand is None and exercise.operands:
            operand = next(iter(exercise.operands))
            notes.append(f"begin again with {operand_text(exercise.operands)}")
        formula = " ".join(entry(exercise.equation).formula.split())
        notes.append(f"the equation: {formula}")
    return Verdict(accepted=False, explanation="; ".join(notes), operand=operand)


def tolerance_text(exercise: Exercise) -> str:
    """How close an answer has to be, in words."""
    if not tolerance(exercise.right):
        return "exactly"
    return f"within {RELATIVE:.1%} of each number: give four digits"
