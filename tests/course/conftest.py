"""A tiny run and the numbers of a sentence in it, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

import pellucid
from pellucid.course.exercises.model_numbers import ModelNumbers
from pellucid.course.exercises.types import Exercise
from pellucid.course.lessons.assemble import build_exercises
from pellucid.course.lessons.lesson import lessons
from pellucid.runs import Run
from support.tiny import train_tiny

SENTENCE = "the cat sat"


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("course") / "run"
    train_tiny(folder)
    return folder


@pytest.fixture(scope="session")
def run(run_folder: Path) -> Run:
    return pellucid.load(run_folder)


@pytest.fixture(scope="session")
def numbers(run: Run) -> ModelNumbers:
    return ModelNumbers(pellucid.trace(run, SENTENCE), SENTENCE)


@pytest.fixture(scope="session")
def exercises(numbers: ModelNumbers) -> dict[str, tuple[Exercise, ...]]:
    """The exercises of every lesson by its name, built once."""
    return {name: build_exercises(lesson, numbers) for name, lesson in lessons().items()}
