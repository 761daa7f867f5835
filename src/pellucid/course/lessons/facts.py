"""Lessons and the verdicts on answers as plain values: for programs, and for the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.course.exercises.leaves import RELATIVE, tolerance
from pellucid.course.lessons.lesson import lessons

if TYPE_CHECKING:
    from pellucid.course.exercises.types import Exercise, Verdict
    from pellucid.course.lessons.open_lesson import OpenLesson
    from pellucid.course.lessons.progress import Progress


def list_facts(progress: Progress) -> dict[str, Any]:
    """All lessons, and where the reader is."""
    following = progress.next_lesson()
    return {
        "reader": progress.reader,
        "next": None if following is None else following.name,
        "lessons": [
            {
                "name": lesson.name,
                "number": lesson.number,
                "title": lesson.title,
                "exercises": lesson.exercise_ids(),
                "solved": progress.count(lesson),
                "done": progress.is_done(lesson),
            }
            for lesson in lessons().values()
        ],
    }


def lesson_facts(
    opened: OpenLesson, progress: Progress, verdicts: Mapping[str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """A lesson for programs.

    Args:
        opened: the lesson.
        progress: the solved exercises.
        verdicts: the verdicts on answers by id, which join their exercises.
    """
    lesson, picture = opened.lesson, opened.picture
    return {
        "name": lesson.name,
        "number": lesson.number,
        "title": lesson.title,
        "idea": lesson.idea,
        "texts": dict(lesson.texts),
        "sentence": opened.sentence,
        "try": opened.command,
        "picture": {"refused": picture} if isinstance(picture, str) else asdict(picture),
        "exercises": [
            _exercise_facts(exercise) | (verdicts or {}).get(exercise.id, {})
            for exercise in opened.exercises
        ],
        "solved": list(progress.solved.get(lesson.name, ())),
    }


def _exercise_facts(exercise: Exercise) -> dict[str, Any]:
    is_choice = exercise.kind == "choice"
    limits = {} if is_choice else {"relative": RELATIVE, "absolute": tolerance(exercise.right)}
    return {
        "id": exercise.id,
        "kind": exercise.kind,
        "question": exercise.question,
        "readers": list(exercise.readers),
        "equation": exercise.equation,
        "operands": exercise.operands,
        "choices": list(exercise.choices),
        "tolerance": limits or None,
    }


def verdict_facts(verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    """Each verdict by the exercise's id."""
    return {name: asdict(verdict) for name, verdict in verdicts.items()}
