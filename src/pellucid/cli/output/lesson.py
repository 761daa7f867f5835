"""A lesson, a list of lessons and the verdicts on answers, in words."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pellucid.course.exercises.grading import parse_answer
from pellucid.course.exercises.leaves import short_text
from pellucid.course.lessons.lesson import lessons
from pellucid.reader import read_text

if TYPE_CHECKING:
    from pellucid.course.exercises.types import Exercise, Verdict
    from pellucid.course.lessons.open_lesson import OpenLesson
    from pellucid.course.lessons.progress import Progress

_WIDTH = 92


def list_lines(progress: Progress) -> Iterator[str]:
    """A line for each lesson."""
    for lesson in lessons().values():
        n_shown = len(lesson.exercise_ids(progress.reader))
        mark = "✓" if progress.is_done(lesson) else " "
        yield f"{mark} {lesson.number:>2}  {lesson.name:<18} {lesson.title} ({n_shown} exercises)"
    yield ""
    yield "open one with: pellucid learn NAME"


def where_lines(progress: Progress) -> Iterator[str]:
    """How far the reader is, and the command for the next lesson."""
    n_done = sum(map(progress.is_done, lessons().values()))
    solved = sum(map(progress.count, lessons().values()))
    yield f"{n_done} of {len(lessons())} lessons done, {solved} exercises solved"
    following = progress.next_lesson()
    if following is None:
        yield "next: build a model of your own: pellucid learn build my-model"
    else:
        yield f"next: {following.number}. {following.title}: pellucid learn {following.name}"
    yield "all lessons: pellucid learn list"


def lesson_lines(opened: OpenLesson, progress: Progress) -> Iterator[str]:
    """A lesson for people: idea, picture, command."""
    from pellucid.cli.output.chapter import ink_for
    from pellucid.cli.output.pictures import draw_picture

    lesson = opened.lesson
    yield f"{lesson.number} · {lesson.title}"
    yield ""
    yield textwrap.fill(lesson.idea, _WIDTH)
    yield ""
    yield textwrap.fill(lesson.texts[progress.reader], _WIDTH)
    yield ""
    if isinstance(opened.picture, str):
        yield textwrap.fill(f"this model has no picture here: {opened.picture}", _WIDTH)
    else:
        yield from draw_picture(opened.picture, ink_for(sys.stdout.encoding))
    yield ""
    yield f"try: {opened.command}"


def all_exercise_lines(opened: OpenLesson, progress: Progress) -> Iterator[str]:
    """The exercises of a lesson, and how to answer them without a terminal."""
    solved = progress.solved.get(opened.lesson.name, ())
    for exercise in opened.exercises:
        yield from exercise_lines(exercise, solved=exercise.id in solved)
    yield ""
    command = f"pellucid learn {opened.lesson.name} --answers FILE"
    yield f"answer with: {command}   ({{id: answer}} as JSON)"


def exercise_lines(exercise: Exercise, *, solved: bool = False) -> Iterator[str]:
    """A question with its operands or its choices."""
    yield ""
    yield f"{'✓ ' if solved else ''}[{exercise.id}]"
    yield textwrap.fill(exercise.question, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    for name, value in exercise.operands.items():
        yield f"    {name} = {short_text(value)}"
    for place, choice in enumerate(exercise.choices):
        yield f"    {chr(ord('a') + place)}) {choice}"


def read_answer(exercise: Exercise, words: str) -> Any:
    """An answer that was typed: as `parse_answer` reads it, or `@FILE` with code.

    Raises:
        PellucidError: it is none of them.
    """
    if exercise.kind != "choice" and words.startswith("@"):
        return read_text(words[1:])
    return parse_answer(exercise, words)


def verdict_lines(verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    """A paragraph for each answer."""
    for name, verdict in verdicts.items():
        yield f"[{name}] {'✓ accepted' if verdict.accepted else '≠ not accepted'}"
        yield textwrap.fill(
            verdict.explanation, _WIDTH, initial_indent="  ", subsequent_indent="  "
        )
