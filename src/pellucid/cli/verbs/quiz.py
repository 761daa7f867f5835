"""`pellucid quiz`: a question, time to think, the answer, and a proof computed on the spot."""

from __future__ import annotations

import argparse
import sys
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import integer
from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_json
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.textbook import Question


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "quiz",
        help="questions on the equations, with answers that are proved",
        description="Ask, wait for Enter, answer, and prove the answer with a computation. On a "
        "pipe the quiz does not wait.",
    )
    parser.add_argument(
        "number", metavar="NUMBER", nargs="?", type=integer(), help="only this question"
    )
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Ask every question, or one."""
    from pellucid.textbook import QUESTIONS

    numbers = range(1, len(QUESTIONS) + 1)
    if arguments.number is not None:
        if arguments.number not in numbers:
            raise PellucidError(
                f"there is no question {arguments.number}; they are numbered from 1 to "
                f"{len(QUESTIONS)}"
            )
        numbers = (arguments.number,)
    if arguments.json:
        print_json([_as_json(number, QUESTIONS[number - 1]) for number in numbers])
        return
    waits = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    for place, number in enumerate(numbers):
        if place:
            print()
        print(textwrap.fill(f"{number}. {QUESTIONS[number - 1].text}", 96))
        if waits and not _continues("Enter: the answer   q: stop "):
            return
        _answer(QUESTIONS[number - 1])
        last = place == len(numbers) - 1
        if waits and not last and not _continues("Enter: the next question   q: stop "):
            return


def _continues(prompt: str) -> bool:
    """Whether the user continues; Ctrl-C and Ctrl-D end the quiz without an error."""
    try:
        return not input(f"\n{prompt}").strip().lower().startswith("q")
    except (EOFError, KeyboardInterrupt):
        print()
        return False


def _answer(question: Question) -> None:
    print()
    print(textwrap.fill(question.answer, 96, initial_indent="   ", subsequent_indent="   "))
    *steps, conclusion = question.proof()
    for step in steps:
        print()
        print(textwrap.indent(f">>> {step.expression}\n{step.shown_text}", "   "))
    print()
    print(textwrap.indent(f">>> {conclusion.expression}\n{conclusion.shown_text}", "   "))


def _as_json(number: int, question: Question) -> dict[str, Any]:
    facts = asdict(question)
    *steps, conclusion = question.proof()
    return {
        "number": number,
        "asks": facts["text"],
        "answer": facts["answer"],
        "proof": [{"expression": step.expression, "value": step.plain} for step in steps],
        "holds": {"expression": conclusion.expression, "value": conclusion.plain},
    }
