"""Open a lesson for a run and a sentence: its exercises and its picture."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from inspect import getdoc
from pathlib import Path

import pellucid.runs
from pellucid import disk, maths
from pellucid.course.exercises.model_numbers import ModelNumbers
from pellucid.course.exercises.types import Exercise
from pellucid.course.lessons.assemble import build_exercises
from pellucid.course.lessons.curves import draw_curve
from pellucid.course.lessons.lesson import Lesson, lessons
from pellucid.course.lessons.progress import MODEL
from pellucid.explain import trace
from pellucid.explain.chapter_types import Film, Frames, StaticPicture
from pellucid.explain.inspection import Refusal, Request, inspect
from pellucid.runs import Run

#: The sentence of a reader who gives none, and what a short context leaves of it.
SENTENCE, SHORT_SENTENCE = "The cat sat on the mat.", "the cat sat"
#: The course's own model: small enough for seconds.
_SETTINGS = (
    "text.held_out=0.05",
    "text.tokenizer.vocab_size=1024",
    "model.context_length=64",
    "model.d_model=64",
    "model.decoder.n_layers=2",
    "model.decoder.attention.d_head=32",
    "model.decoder.feed_forward.d_ff=256",
)
_STEPS, _TEXT = 300, "text.txt"


@dataclass(frozen=True, slots=True)
class OpenLesson:
    """A lesson with its exercises, its picture, and the command to try.

    `picture` is a reason in words if this model has no such picture. `pieces` are the tokens of the
    sentence.
    """

    lesson: Lesson
    exercises: tuple[Exercise, ...]
    picture: StaticPicture | str
    command: str
    sentence: str
    pieces: tuple[str, ...]


def find_run(run: str | None, folder: Path, notify: Callable[[str], None]) -> tuple[str, Run]:
    """A run and its name: the given one, or the course's, which is trained if it is missing.

    Args:
        run: a run's folder, or None.
        folder: the folder of the course.
        notify: called with a line about the training.

    Raises:
        PellucidError: there is no such run, or the training stops.
    """
    if run is not None:
        return run, pellucid.runs.load(run)
    folder_of_model = folder / MODEL
    if folder_of_model.exists():
        return str(folder_of_model), pellucid.runs.load(folder_of_model)
    notify(f"training the course's own model into {folder_of_model}, once: it takes seconds")
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / _TEXT
    disk.write_text(text, _own_words())
    trained = pellucid.runs.train(
        [text], out=folder_of_model, steps=_STEPS, settings=_SETTINGS, show=False
    )
    return str(folder_of_model), trained


def _own_words() -> str:
    """What the course's model reads: the words of all lessons, and of all equations."""
    words = [
        text for lesson in lessons().values() for text in (lesson.idea, *lesson.texts.values())
    ]
    words += [getdoc(getattr(maths, name)) or "" for name in maths.__all__]
    return "\n\n".join(words)


def open_lesson(
    lesson: Lesson, run: Run, name: str, *, sentence: str | None = None, reader: str | None = None
) -> OpenLesson:
    """A lesson with what a model makes of a sentence.

    Args:
        lesson: the lesson.
        run: the reader's model.
        name: how its command names the run.
        sentence: the reader's own; by default one that fits.
        reader: whose exercises; all by default.

    Raises:
        PellucidError: the sentence is too long for the model, or the model cannot read it.
    """
    if sentence is None:
        fits = run.model.context_length > 2 * len(SENTENCE)
        sentence = SENTENCE if fits else SHORT_SENTENCE
    traced = trace(run, sentence)
    numbers = ModelNumbers(traced, sentence)
    picture: StaticPicture | str
    if lesson.curve:
        picture = draw_curve(lesson.curve)
    else:
        (chapter,) = inspect(Request(trace=traced, chapters=(lesson.picture,))).chapters
        if isinstance(chapter, Refusal):
            picture = chapter.reason
        else:
            pictures = (p for p in chapter.pictures if not isinstance(p, Film | Frames))
            picture = next(pictures, chapter.sentence)
    command = lesson.command.replace("RUN", shlex.quote(name)).replace(
        "SENTENCE", shlex.quote(sentence)
    )
    exercises = build_exercises(lesson, numbers, reader)
    return OpenLesson(lesson, exercises, picture, command, sentence, numbers.pieces)
