"""The course on the page: lessons computed from a run and its sentence, and verdicts on answers.

Questions, grading and the file of progress are those of `pellucid learn`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.catalogue import message
from pellucid.course.exercises.grading import grade_all, is_code, parse_answer
from pellucid.course.exercises.leaves import short_text
from pellucid.course.exercises.types import Exercise
from pellucid.course.lessons.facts import lesson_facts, verdict_facts
from pellucid.course.lessons.lesson import Lesson, find_lesson, lessons
from pellucid.course.lessons.open_lesson import OpenLesson, open_lesson
from pellucid.course.lessons.progress import Progress, note, read_progress
from pellucid.runs import Run
from pellucid.web.book import lesson_links
from pellucid.web.json_payload import Plain, picture_payload
from pellucid.web.requests import Reading, RequestError


class Course:
    """Lessons, and the progress of their one reader.

    Attributes:
        folder: The folder of the progress.
        runs_code: Whether an answer may be code. `serve` allows it if no other machine can reach
            the server.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs_code = False
        # the lesson that was opened last: its answers come next
        self._opened: tuple[Any, OpenLesson] | None = None

    def contents(self, reader: str) -> Plain:
        """All lessons with the reader's progress.

        Args:
            reader: The reader from now on; empty for no change.
        """
        progress = note(self.folder, reader=reader) if reader else read_progress(self.folder)
        following = progress.next_lesson()
        return {
            "reader": progress.reader,
            "next": None if following is None else following.name,
            "lessons": [_row(lesson, progress) for lesson in lessons().values()],
        }

    def open(self, name: str, run: Run, folder: Path, reading: Reading) -> OpenLesson:
        """A lesson for a run and a sentence.

        Args:
            name: The lesson's.
            run: The run.
            folder: Where it is; other machines see only its name.
            reading: The sentence.

        Raises:
            PellucidError: There is no such lesson, or the model cannot read the sentence.
        """
        lesson = find_lesson(name)
        key = (name, reading, str(run.checkpoint))
        if self._opened is None or self._opened[0] != key:
            shown_folder = str(folder) if self.runs_code else folder.name
            opened = open_lesson(lesson, run, shown_folder, sentence=reading.sentence or None)
            self._opened = (key, opened)
        return self._opened[1]

    def lesson(self, opened: OpenLesson) -> Plain:
        """A lesson in the words for its reader, with the exercises that the reader sees."""
        progress = read_progress(self.folder)
        facts = lesson_facts(opened, progress)
        texts, names = facts.pop("texts"), list(lessons())
        place = opened.lesson.number - 1
        notes: list[str] = []
        picture = facts["picture"]
        if not isinstance(opened.picture, str):
            picture = picture_payload(opened.picture, notes)
        return (
            facts
            | _row(opened.lesson, progress)
            | {
                "of": len(names),
                "text": texts[progress.reader],
                "picture": picture,
                "notes": notes,
                "pieces": list(opened.pieces),
                "exercises": [
                    _question(exercise, exercise.id in facts["solved"])
                    for exercise in opened.exercises
                    if progress.reader in exercise.readers
                ],
                "code": self.runs_code,
                "links": lesson_links(opened.lesson),
                "previous": names[place - 1] if place else None,
                "next": names[place + 1] if place + 1 < len(names) else None,
            }
        )

    def grade(self, opened: OpenLesson, answers: Mapping[str, str]) -> Plain:
        """Verdicts on answers as they were typed; accepted ones join the progress.

        Raises:
            PellucidError: There is no such exercise, an answer is of another type, or it is code
                and the server does not run code.
        """
        by_id = {exercise.id: exercise for exercise in opened.exercises}
        parsed: dict[str, Any] = {}
        for name, words in answers.items():
            parsed[name] = parse_answer(by_id[name], words) if name in by_id else words
            if name in by_id and not self.runs_code and is_code(by_id[name], parsed[name]):
                raise RequestError(message("learn.no-code", lesson=opened.lesson.name))
        verdicts = grade_all(opened.exercises, parsed)
        solved = [name for name, verdict in verdicts.items() if verdict.accepted]
        progress = note(self.folder, lesson=opened.lesson.name, solved=solved)
        return {"verdicts": verdict_facts(verdicts), **_row(opened.lesson, progress)}


def _row(lesson: Lesson, progress: Progress) -> Plain:
    """A lesson's name, and how many of the exercises that its reader sees are solved."""
    ids = lesson.exercise_ids(progress.reader)
    n_solved = len(set(progress.solved.get(lesson.name, ())) & set(ids))
    return {
        "name": lesson.name,
        "number": lesson.number,
        "title": lesson.title,
        "n_solved": n_solved,
        "n_exercises": len(ids),
    }


def _question(exercise: Exercise, is_solved: bool) -> Plain:
    return {
        "id": exercise.id,
        "kind": exercise.kind,
        "question": exercise.question,
        "equation": exercise.equation,
        "operands": [[name, short_text(value)] for name, value in exercise.operands.items()],
        "choices": list(exercise.choices),
        "solved": is_solved,
    }
