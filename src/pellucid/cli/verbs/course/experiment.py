"""`pellucid experiment`: a claim of the textbook, measured on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import integer
from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import can_ask, print_lines, print_result
from pellucid.cli.verbs.lab.compare import notifier
from pellucid.disk import check_output, write_output
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.course.experiments import Question, Result

_SEEDS = integer(2, 1000, "one seed decides nothing, and each is a measurement of its own")
_FORMATS = (".svg", ".html", ".htm")


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "experiment",
        help="measure a claim of the textbook on this machine",
        description="List the experiments, or carry one out: first your prediction, then a "
        "picture, the claim, the measured numbers, a verdict by a fixed rule, what would refute "
        "the claim, and its source.",
    )
    parser.add_argument("name", metavar="list|NAME", help="list them all, or the name of one")
    parser.add_argument("--seeds", type=_SEEDS, metavar="N", help="measure with so many seeds")
    parser.add_argument(
        "--quick", action="store_true", help="fewer seeds, shorter trainings: under two minutes"
    )
    parser.add_argument(
        "--out", metavar="FILE", help="write the picture as .svg, or everything as .html"
    )
    finish_parser(parser, call)


def call(arguments: argparse.Namespace) -> None:
    """Print the list, or ask for a prediction, measure and print the result."""
    if arguments.out is not None:
        _check_file(Path(arguments.out))
    if arguments.name == "list":
        _print_list(arguments)
        return
    from pellucid.course.experiments import conduct, find, result_facts

    experiment = find(arguments.name)
    predicted = None
    if not arguments.json and can_ask():
        print_lines([experiment.title, "", experiment.description])
        predicted = _ask(experiment.question)
    result = conduct(
        experiment, seeds=arguments.seeds, quick=arguments.quick, notify=notifier(arguments)
    )
    facts = result_facts(result)
    if arguments.out is not None:
        _write(Path(arguments.out), result)
        facts["file"] = arguments.out
    print_result(arguments, facts, _lines(result, predicted, arguments.out))


def _ask(question: Question) -> int | None:
    """The index of the reader's choice; None if they skip."""
    print_lines(["", question.text])
    print_lines(f"  {i}  {choice}" for i, choice in enumerate(question.choices, 1))
    numbers = {str(i + 1): i for i in range(len(question.choices))}
    while True:
        try:
            reply = input(f"Your prediction (1 to {len(numbers)}, Enter: skip) ").strip()
        except EOFError:
            print()
            return None
        if not reply or reply in numbers:
            return numbers.get(reply)


def _print_list(arguments: argparse.Namespace) -> None:
    if arguments.out is not None or arguments.seeds is not None or arguments.quick:
        raise ConfigError("list takes no --out, --seeds or --quick: name an experiment with them")
    from pellucid.course.experiments import EXPERIMENTS, experiment_facts

    width = max(map(len, EXPERIMENTS))
    lines = [f"{name:<{width}}  {experiment.title}" for name, experiment in EXPERIMENTS.items()]
    facts = [experiment_facts(experiment) for experiment in EXPERIMENTS.values()]
    print_result(arguments, facts, [*lines, "", "pellucid experiment NAME --quick"])


def _check_file(path: Path) -> None:
    if path.suffix.lower() not in _FORMATS:
        raise ConfigError(f"--out {path}: expected a name that ends in .svg or .html")
    check_output(path)


def _write(path: Path, result: Result) -> None:
    from pellucid.course.experiments import picture_svg, result_page

    is_picture = path.suffix.lower() == ".svg"
    write_output(path, picture_svg(result.picture) if is_picture else result_page(result))


def _lines(result: Result, predicted: int | None, file: str | None) -> Iterator[str]:
    from pellucid.course.experiments import picture_lines, result_rows

    yield ""
    yield from picture_lines(result.picture)
    yield ""
    for label, texts in result_rows(result):
        for row, text in enumerate(texts):
            yield from _folded("" if row else label, text)
    if predicted is not None:
        question = result.experiment.question
        claimed = question.choices[question.claimed]
        yield from _folded("you", f"predicted: {question.choices[predicted]}")
        yield from _folded("", f"the claim predicts: {claimed}")
    if file is not None:
        yield from _folded("file", file)


def _folded(label: str, text: str) -> Iterator[str]:
    from pellucid.display.terminal_text import folded

    for row, line in enumerate(folded(text, 82)):
        yield f"{'' if row else label:<12}{line}"
