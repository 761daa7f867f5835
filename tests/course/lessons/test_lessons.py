"""Every equation has an exercise, every exercise an answer that passes and one that fails."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest

from pellucid import maths
from pellucid.cli import main
from pellucid.course.exercises.grading import grade
from pellucid.course.exercises.leaves import numbers_by_place, with_leaf
from pellucid.course.exercises.types import READERS, Exercise
from pellucid.course.lessons.assemble import quiz_exercises
from pellucid.course.lessons.lesson import MAX_SHOWN, MIN_SHOWN, find_lesson, lessons
from pellucid.course.lessons.open_lesson import open_lesson
from pellucid.errors import PellucidError
from pellucid.explain.chapters import CHAPTERS
from pellucid.runs import Run
from pellucid.textbook import QUESTIONS

#: Lessons whose commands the default tests run; the nightly ones run all.
SAMPLE = ("text", "vectors", "attention", "sampling", "what-goes-wrong")


def test_every_equation_is_asked_in_exactly_one_lesson() -> None:
    equations = [e for lesson in lessons().values() for e in (*lesson.equations, *lesson.gradients)]
    assert sorted(equations) == sorted(maths.__all__)


def test_every_question_of_the_quiz_is_asked_with_choices() -> None:
    quiz = quiz_exercises().values()
    assert [exercise.question for exercise in quiz] == [question.text for question in QUESTIONS]
    assert all(len(exercise.choices) == 3 for exercise in quiz)


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_sees_three_to_six_exercises_in_every_lesson(reader: str) -> None:
    for name, lesson in lessons().items():
        ids = lesson.exercise_ids(reader)
        assert MIN_SHOWN <= len(set(ids)) == len(ids) <= MAX_SHOWN, name
    for lesson in lessons().values():
        exercise_ids = {name for reader in READERS for name in lesson.exercise_ids(reader)}
        assert exercise_ids == set(lesson.exercise_ids())


def test_every_lesson_has_words_for_each_reader_and_one_picture() -> None:
    chapters = {chapter.id for chapter in CHAPTERS}
    for lesson in lessons().values():
        assert set(lesson.texts) == set(READERS)
        assert (lesson.picture in chapters) != bool(lesson.curve)
        for choice in lesson.choices:
            assert choice.right in choice.choices


def wrong_answer(exercise: Exercise, right: Any) -> Any:
    if exercise.kind == "choice":
        return next(text for text in exercise.choices if text != right)
    place, number = next(iter(numbers_by_place(right).items()))
    changed_number = number + 0.01 * abs(number) + 1 if math.isfinite(number) else 0.0
    return with_leaf(right, place, changed_number)


@pytest.mark.parametrize("name", lessons())
def test_every_exercise_has_an_answer_that_passes_and_one_that_fails(
    name: str, exercises: dict[str, tuple[Exercise, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pellucid.course.exercises.misread._MAX_TRIED", 1)  # its own test tries all
    for exercise in exercises[name]:
        if exercise.equation is None:
            right = exercise.right
        else:
            operands = json.loads(json.dumps(exercise.operands))
            right = json.loads(json.dumps(_plain(getattr(maths, exercise.equation)(**operands))))
        assert grade(exercise, right).accepted, exercise.id
        verdict = grade(exercise, wrong_answer(exercise, right))
        assert not verdict.accepted, exercise.id
        if exercise.operands:
            assert verdict.operand in exercise.operands


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return value.tolist() if hasattr(value, "tolist") else value


def test_most_exercises_have_numbers_of_the_model(
    exercises: dict[str, tuple[Exercise, ...]],
) -> None:
    of_equations = [
        e
        for lesson_exercises in exercises.values()
        for e in lesson_exercises
        if e.equation is not None
    ]
    assert sum(bool(e.origins) for e in of_equations) > 0.9 * len(of_equations)


@pytest.mark.parametrize(
    "name",
    [
        name if name in SAMPLE else pytest.param(name, marks=pytest.mark.nightly)
        for name in lessons()
    ],
)
def test_the_command_of_a_lesson_works(
    name: str, run: Run, run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = open_lesson(find_lesson(name), run, str(run_folder))
    assert not isinstance(opened.picture, str)
    assert main(shlex.split(opened.command)[1:]) == 0
    assert capsys.readouterr().out


def test_a_lesson_that_does_not_exist_is_refused_with_similar_ones() -> None:
    with pytest.raises(PellucidError, match="no lesson called 'atention'; did you mean attention"):
        find_lesson("atention")
