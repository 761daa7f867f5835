"""The lessons, in the order of the story, and which equations belong to each.

The words are in this folder's TOML files. `modules` names modules of `maths`: the lesson asks all
their equations; `equations` names single ones. An equation whose module no lesson names belongs to
the lesson of its topic, so that every equation has one.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from pellucid import maths
from pellucid.course.exercises.types import READERS
from pellucid.errors import PellucidError
from pellucid.reader import parse_toml, short
from pellucid.textbook import QUESTIONS, entry, topics

_FILES = ("reading", "attending", "predicting", "learning", "using")
#: The lesson of equations whose module no lesson names, by their topic in the textbook.
_LESSON_OF_TOPIC = {
    "softmax": "softmax",
    "cross-entropy": "loss",
    "divergences": "divergences",
    "norms": "other-norms",
    "attention": "cheaper-attention",
    "positions": "distances",
    "activations": "residuals",
    "blocks": "residuals",
    "experts": "experts",
    "penalties": "penalties",
    "initialisation": "what-goes-wrong",
    "optimisers": "update",
    "sampling": "sampling",
    "preference and policy": "rewards",
    "classification": "evaluation",
    "memory": "memory",
    "tokens": "tokens",
    "counts": "adapters",
}
#: How many exercises a reader sees in a lesson: at most, and at least if it has so many.
MAX_SHOWN, MIN_SHOWN = 6, 3
_GRADIENTS = ("_grad", "_grads")


@dataclass(frozen=True, slots=True)
class Choice:
    """A question with choices: each choice with its explanation; `right` is one of them."""

    id: str
    question: str
    right: str
    choices: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Lesson:
    """One idea, in words for each reader, with a picture, a command to try, and its exercises.

    `picture` is a chapter of `pellucid explain`, `curve` a picture of `curves`; one of them is "".

    Attributes:
        name: in commands.
        number: the place in the course.
        title: for people.
        idea: in one sentence.
        texts: by reader.
        command: to try.
        choices: questions with choices.
        numbers: equations whose value is asked.
        equations: equations whose code is asked.
        gradients: equations whose gradient is asked.
    """

    name: str
    number: int
    title: str
    idea: str
    texts: Mapping[str, str]
    command: str
    picture: str
    curve: str
    choices: tuple[Choice, ...]
    numbers: tuple[str, ...]
    equations: tuple[str, ...]
    gradients: tuple[str, ...]

    @property
    def basic_ids(self) -> list[str]:
        """The ids of its choices, numbers and equations."""
        return [*(choice.id for choice in self.choices), *self.numbers, *self.equations]

    @property
    def code_ids(self) -> list[str]:
        """The ids of its exercises that ask for code: its first equation."""
        return [f"write-{name}" for name in self.equations[:1]]

    def exercise_ids(self, reader: str | None = None) -> list[str]:
        """The ids of its exercises, for one reader or for all."""
        ids = [*self.basic_ids, *self.code_ids, *self.gradients]
        return ids if reader is None else [name for name in ids if name in self.readers()[reader]]

    def readers(self) -> dict[str, list[str]]:
        """Who sees what: the first ones are for a new reader, the others take the rest in turns."""
        others = [*self.code_ids, *self.basic_ids[MAX_SHOWN:], *self.gradients]
        readers = {
            "new": self.basic_ids[:MAX_SHOWN],
            "pytorch": others[::2],
            "interview": others[1::2],
        }
        for names in readers.values():
            unused = [name for name in self.basic_ids if name not in names]
            names += unused[: max(0, MIN_SHOWN - len(names))]
        return readers


@cache
def lessons() -> Mapping[str, Lesson]:
    """All lessons by name, in the order of the story."""
    records = _records()
    owners = _owners(records)
    return MappingProxyType(
        {
            name: _lesson(name, number, record, [e for e, owner in owners.items() if owner == name])
            for number, (name, record) in enumerate(records.items(), 1)
        }
    )


def find_lesson(name: str) -> Lesson:
    """The lesson of this name.

    Raises:
        PellucidError: there is none; lists similar names.
    """
    match = lessons().get(name)
    if match is None:
        similar = difflib.get_close_matches(name, lessons(), n=3, cutoff=0.4)
        hint = (
            f"did you mean {', '.join(similar)}?"
            if similar
            else "see all with: pellucid learn list"
        )
        raise PellucidError(f"there is no lesson called {short(name)}; {hint}")
    return match


def _records() -> dict[str, dict[str, Any]]:
    records: dict[str, dict[str, Any]] = {}
    for name in _FILES:
        text = (files("pellucid.course.lessons") / f"{name}.toml").read_text("utf-8")
        records |= parse_toml(text, f"{name}.toml")
    return records


def _owners(records: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The lesson of every equation."""
    by_module = {m: name for name, record in records.items() for m in record.get("modules", ())}
    by_equation = {e: name for name, record in records.items() for e in record.get("equations", ())}
    owners: dict[str, str] = {}
    in_order = [name for names in topics().values() for name in names]
    for equation in dict.fromkeys([*in_order, *maths.__all__]):
        module = inspect.unwrap(getattr(maths, equation)).__module__
        module = module.removeprefix("pellucid.maths.")
        owner = by_equation.get(equation) or by_module.get(module)
        owners[equation] = owner or _LESSON_OF_TOPIC[entry(equation).topic]
    return owners


def _lesson(name: str, number: int, record: Mapping[str, Any], equations: list[str]) -> Lesson:
    return Lesson(
        name=name,
        number=number,
        title=record["title"],
        idea=record["idea"],
        texts={reader: record[reader] for reader in READERS},
        command=record["try"],
        picture=record.get("picture", ""),
        curve=record.get("curve", ""),
        choices=tuple(map(_choice, record.get("choices", ()))),
        numbers=tuple(record.get("numbers", ())),
        equations=tuple(e for e in equations if not e.endswith(_GRADIENTS)),
        gradients=tuple(e for e in equations if e.endswith(_GRADIENTS)),
    )


def _choice(record: Mapping[str, Any]) -> Choice:
    """A choice of the lesson's own, or one for a question of the quiz."""
    if "quiz" in record:
        (number,) = (n for n, q in enumerate(QUESTIONS) if q.text.startswith(record["quiz"]))
        quiz = QUESTIONS[number]
        name, question, reason = f"quiz-{number + 1}", quiz.text, quiz.answer
    else:
        name, question, reason = record["id"], record["question"], record["why"]
    answers = {record["right"]: reason, **dict(record["wrong"])}
    # in alphabetical order, so that the place tells nothing
    return Choice(name, question, record["right"], {key: answers[key] for key in sorted(answers)})
