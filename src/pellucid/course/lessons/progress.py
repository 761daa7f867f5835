"""What a reader has solved, in one file; written whole, under a lock, so that nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import filelock

from pellucid import disk
from pellucid.course.exercises.types import READERS
from pellucid.course.lessons.lesson import Lesson, lessons
from pellucid.errors import PellucidError
from pellucid.json_text import json_text
from pellucid.reader import read_json_table

#: The folder of the course: its model, which is a run, and the file of solved exercises.
FOLDER = Path("runs/learn")
MODEL, _FILE = "model", "progress.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """The reader, and the ids of the solved exercises by lesson."""

    reader: str = "new"
    solved: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def count(self, lesson: Lesson) -> int:
        """How many exercises of a lesson are solved."""
        return len(set(self.solved.get(lesson.name, ())) & set(lesson.exercise_ids()))

    def is_done(self, lesson: Lesson) -> bool:
        """Whether all exercises that the reader sees in a lesson are solved."""
        return set(lesson.exercise_ids(self.reader)) <= set(self.solved.get(lesson.name, ()))

    def next_lesson(self) -> Lesson | None:
        """The first lesson that is not done; None at the end."""
        return next((lesson for lesson in lessons().values() if not self.is_done(lesson)), None)


def read_progress(folder: Path) -> Progress:
    """The progress in a folder; none if it has no file.

    Raises:
        PellucidError: the file is damaged; it stays as it is.
    """
    file = folder / _FILE
    if not file.exists():
        return Progress()
    record = read_json_table(file)
    reader, solved = record.get("reader"), record.get("solved")
    if reader not in READERS or not isinstance(solved, dict):
        raise PellucidError(
            f"{file}: expected the reader and the solved exercises, as pellucid learn writes them; "
            "mend it, or move it away to begin again"
        )
    by_lesson = cast("dict[str, list[Any]]", solved)
    return Progress(reader, {name: tuple(map(str, ids)) for name, ids in by_lesson.items()})


def note(
    folder: Path,
    *,
    lesson: str | None = None,
    solved: Iterable[str] = (),
    reader: str | None = None,
) -> Progress:
    """Add solved exercises to the file, or change the reader; give the new progress.

    Args:
        folder: the folder of the course; it is made if it is missing.
        lesson: the lesson of the exercises.
        solved: their ids.
        reader: the reader from now on.

    Raises:
        PellucidError: as `read_progress`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / f".{_FILE}.lock"):
        before = read_progress(folder)
        ids = dict(before.solved)
        if lesson is not None:
            ids[lesson] = tuple(dict.fromkeys([*ids.get(lesson, ()), *solved]))
        progress = Progress(reader or before.reader, ids)
        if progress != before or not (folder / _FILE).exists():
            record = {"reader": progress.reader, "solved": progress.solved}
            disk.write_text(folder / _FILE, json_text(record, indent=1))
    return progress
