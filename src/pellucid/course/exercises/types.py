"""Exercises, the numbers that they show, and the judgement of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pellucid import maths
from pellucid.course.exercises.leaves import plain

#: Who learns: new to the subject, knows PyTorch, prepares for an interview.
READERS = ("new", "pytorch", "interview")
#: The parameters of an equation by name, as plain JSON.
Operands = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """A question with one right answer.

    A number is the value of an equation for its operands; code computes it for any operands.
    `origins` says where operands come from. `choices` has each choice with its explanation.
    `value` is the answer of an exercise without an equation. `more_operands(i)` are operands of
    another place in the sentence.

    Attributes:
        id: the name by which answers are kept.
        kind: of the answer.
        question: the text.
        readers: for whom it is.
        equation: of `pellucid.maths`; None without one.
        operands: of the equation, by name.
    """

    id: str
    kind: Literal["number", "choice", "code"]
    question: str
    readers: tuple[str, ...] = READERS
    equation: str | None = None
    operands: Operands = field(default_factory=Operands)
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    value: Any = None
    more_operands: Callable[[int], Operands] | None = None

    @property
    def right(self) -> Any:
        """The right answer, as plain JSON."""
        return self.value if self.equation is None else evaluate(self.equation, self.operands)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an answer is accepted, and why; `operand` is where it went wrong, if known.

    Attributes:
        accepted: whether the answer is right.
        explanation: why.
    """

    accepted: bool
    explanation: str
    operand: str | None = None


def evaluate(equation: str, operands: Mapping[str, Any]) -> Any:
    """The value of an equation, as plain JSON.

    Raises:
        MathsError: the operands have no meaning for it.
    """
    return plain(getattr(maths, equation)(**operands))
