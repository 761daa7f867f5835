"""`pellucid quiz`: the questions of the course that need no model, each with a computed proof."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import integer
from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import can_ask, print_json, print_result
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.course.exercises.types import Exercise
    from pellucid.textbook import Question


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "quiz",
        help="questions on the equations, with answers that are proved",
        description="Ask, wait for your choice or for Enter, answer, and prove the answer with a "
        "computation. On a pipe the quiz does not wait. `pellucid learn` asks the same questions "
        "in its lessons.",
    )
    parser.add_argument(
        "number", metavar="NUMBER", nargs="?", type=integer(), help="only this question"
    )
    parser.add_argument(
        "--answers", metavar="FILE", help="a JSON file of choices by the question's id, as quiz-4"
    )
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Ask every question, or one."""
    from pellucid.course.lessons.assemble import quiz_exercises
    from pellucid.textbook import QUESTIONS

    if arguments.answers is not None:
        _grade(arguments)
        return
    exercises = list(quiz_exercises().values())
    numbers = range(1, len(QUESTIONS) + 1)
    if arguments.number is not None:
        if arguments.number not in numbers:
            raise PellucidError(
                f"there is no question {arguments.number}; they are numbered from 1 to "
                f"{len(QUESTIONS)}"
            )
        numbers = (arguments.number,)
    if arguments.json:
        print_json(
            [_as_json(n, QUESTIONS[n - 1], exercises[n - 1]) for n in numbers],
        )
        return
    waits = can_ask()
    for place, number in enumerate(numbers):
        if place:
            print()
        print(textwrap.fill(f"{number}. {QUESTIONS[number - 1].text}", 96))
        for place, choice in enumerate(exercises[number - 1].choices):
            print(f"   {chr(ord('a') + place)}) {choice}")
        if waits and not _chooses(exercises[number - 1]):
            return
        _answer(QUESTIONS[number - 1])
        last = place == len(numbers) - 1
        if waits and not last and not _continues("Enter: the next question   q: stop "):
            return


def _grade(arguments: argparse.Namespace) -> None:
    """Print the verdict on each choice of a file."""
    from pellucid.cli.output.lesson import verdict_lines
    from pellucid.course.exercises.grading import grade_all
    from pellucid.course.lessons.assemble import quiz_exercises
    from pellucid.course.lessons.facts import verdict_facts
    from pellucid.reader import read_json_table

    if arguments.number is not None:
        raise PellucidError("--answers names its questions: leave the number out")
    verdicts = grade_all(list(quiz_exercises().values()), read_json_table(arguments.answers))
    print_result(arguments, {"answers": verdict_facts(verdicts)}, verdict_lines(verdicts))


def _chooses(exercise: Exercise) -> bool:
    """Judge a choice; False if the user stops."""
    from pellucid.cli.output.lesson import verdict_lines
    from pellucid.course.exercises.grading import grade

    try:
        words = input("\na, b, c: your choice   Enter: the answer   q: stop ").strip().lower()
    except (EOFError, KeyboardInterrupt):
        print()
        return False
    if words in ("", "q"):
        return words == ""
    try:
        print("\n".join(verdict_lines({exercise.id: grade(exercise, words)})))
    except PellucidError as error:
        print(error)
    return True


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


def _as_json(number: int, question: Question, exercise: Exercise) -> dict[str, Any]:
    facts = asdict(question)
    *steps, conclusion = question.proof()
    return {
        "number": number,
        "id": exercise.id,
        "choices": list(exercise.choices),
        "asks": facts["text"],
        "answer": facts["answer"],
        "proof": [{"expression": step.expression, "value": step.plain} for step in steps],
        "holds": {"expression": conclusion.expression, "value": conclusion.plain},
    }
