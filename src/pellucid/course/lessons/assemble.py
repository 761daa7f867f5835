"""The exercises of a lesson, computed from a model and a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pellucid.course.exercises.grading import tolerance_text
from pellucid.course.exercises.operands import Filled, fill
from pellucid.course.exercises.types import Exercise, Operands
from pellucid.course.lessons.lesson import Choice, Lesson, lessons
from pellucid.textbook import QUESTIONS, entry

if TYPE_CHECKING:
    from pellucid.course.exercises.model_numbers import ModelNumbers

_LORA_RANK = 4


def build_exercises(
    lesson: Lesson, numbers: ModelNumbers, reader: str | None = None
) -> tuple[Exercise, ...]:
    """The exercises of a lesson, for one reader or for all."""
    readers = lesson.readers()
    return tuple(
        replace(_build(lesson, name, numbers), readers=_readers_of(readers, name))
        for name in lesson.exercise_ids(reader)
    )


def _readers_of(readers: Mapping[str, Sequence[str]], name: str) -> tuple[str, ...]:
    return tuple(reader for reader, names in readers.items() if name in names)


def quiz_exercises() -> dict[str, Exercise]:
    """The questions of the quiz by id, in its order: they need no model."""
    choices = [choice for lesson in lessons().values() for choice in lesson.choices]
    by_question = {choice.question: choice for choice in choices}
    in_order = [by_question[question.text] for question in QUESTIONS]
    return {choice.id: _of_choice(choice) for choice in in_order}


def _build(lesson: Lesson, name: str, numbers: ModelNumbers) -> Exercise:
    for choice in lesson.choices:
        if choice.id == name:
            return _of_choice(choice)
    if name in lesson.numbers:
        question, value = _NUMBERS[name]
        return Exercise(id=name, kind="number", question=question, value=value(numbers))
    equation = name.removeprefix("write-")
    filled = fill(equation, numbers)
    exercise = Exercise(
        id=name,
        kind="number" if name == equation else "code",
        question="",
        equation=equation,
        operands=filled.operands,
        origins=filled.origins,
        more_operands=partial(_more_operands, equation, numbers),
    )
    return replace(exercise, question=_question(exercise, filled))


def _more_operands(equation: str, numbers: ModelNumbers, variant: int) -> Operands:
    return fill(equation, numbers, variant).operands


def _of_choice(choice: Choice) -> Exercise:
    return Exercise(
        id=choice.id,
        kind="choice",
        question=choice.question,
        choices=choice.choices,
        value=choice.right,
    )


def _question(exercise: Exercise, filled: Filled) -> str:
    record = entry(str(exercise.equation))
    if exercise.kind == "code":
        return (
            f"Write `def {record.signature}` with NumPy as `np`. {record.summary} It is run on "
            "several inputs of your model, and compared with the equation; the value for these "
            "operands is accepted too."
        )
    origins = "; ".join(f"{name}: {text}" for name, text in filled.origins.items())
    source = f" From your model: {origins}." if origins else ""
    return (
        f"Compute `{record.signature}` for these operands. {record.summary}{source} Accepted "
        f"{tolerance_text(exercise)}."
    )


def _lora_parameters(numbers: ModelNumbers) -> int:
    return _LORA_RANK * 2 * numbers.trace.model.d_model


#: Numbers of a model and a sentence that are no equation's: the question, and the answer.
_NUMBERS: dict[str, tuple[str, Callable[[ModelNumbers], int]]] = {
    "n_bytes": ("How many bytes has your sentence in UTF-8?", lambda n: len(n.text.encode())),
    "n_characters": ("How many characters has your sentence?", lambda n: len(n.text)),
    "n_tokens": (
        "How many tokens does your model read, with those that it adds at the beginning or end?",
        lambda n: len(n.token_ids),
    ),
    "first_id": ("What is the id of the first token that it reads?", lambda n: n.token_ids[0]),
    "last_id": ("What is the id of the last token that it reads?", lambda n: n.token_ids[-1]),
    "vocab_size": (
        "How many rows has its embedding: one for each token of the vocabulary?",
        lambda n: n.trace.model.token_embedding.num_embeddings,
    ),
    "d_model": (
        "How many numbers has the vector of a token in your model (d_model)?",
        lambda n: n.trace.model.d_model,
    ),
    "d_head": (
        "How many numbers has a query of one head in your model (d_head)?",
        lambda n: n.width("query"),
    ),
    "full_matrix": (
        "How many numbers has a matrix of d_model x d_model in your model?",
        lambda n: n.trace.model.d_model**2,
    ),
    "lora_parameters": (
        f"How many numbers learn in a LoRA update of that matrix with rank {_LORA_RANK}?",
        _lora_parameters,
    ),
}
