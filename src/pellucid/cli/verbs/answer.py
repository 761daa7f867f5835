"""`pellucid answer`: ask a run that was tuned to answer."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import SEED, TEMPERATURE
from pellucid.cli.flags.read_texts import prompts_or_session
from pellucid.cli.flags.shared import add_new_tokens, add_run, finish_parser
from pellucid.cli.output.generation import TextPrinter, read_prompts
from pellucid.cli.output.printing import escape_controls, print_result
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.generation import Sampling
    from pellucid.runs import Run


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "answer",
        help="ask a run that was tuned to answer",
        description="Format prompts with the run's own template, and print its answers. Without a "
        "text, pellucid reads texts from the terminal, or one from standard input.",
    )
    add_run(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    add_new_tokens(parser)
    parser.add_argument(
        "--temperature",
        type=TEMPERATURE,
        default=0.0,
        metavar="T",
        help="0 is greedy (default)",
    )
    parser.add_argument(
        "--seed", type=SEED, default=0, metavar="S", help="seed of the sampling (0)"
    )
    finish_parser(parser, call, device=True, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Print one answer after another."""
    from pellucid import runs
    from pellucid.generation import Sampling

    texts = prompts_or_session(arguments, arguments.texts)
    run = runs.load(arguments.run, device=arguments.device)
    sampling = Sampling(
        max_new_tokens=arguments.max_new_tokens,
        temperature=arguments.temperature,
        seed=arguments.seed,
    )
    if not texts:
        _converse(run, sampling)
        return
    warn = TextPrinter(run=run).warn
    answers = runs.answer(run, texts, sampling, when_outgrown=warn, force=arguments.force)
    facts = [
        {"prompt": prompt, "text": answer.text, "ids": answer.ids, "stopped": answer.stopped}
        for prompt, answer in zip(texts, answers, strict=True)
    ]
    print_result(arguments, facts, (escape_controls(answer.text.strip()) for answer in answers))


def _converse(run: Run, sampling: Sampling) -> None:
    from pellucid import runs

    warn = TextPrinter(run=run).warn
    for prompt in read_prompts(run, "answers"):
        if not prompt.strip():
            return
        try:
            (answer,) = runs.answer(run, prompt, sampling, when_outgrown=warn)
        except PellucidError as error:  # this prompt was too long; the next may be shorter
            print(error, file=sys.stderr)
            continue
        print(escape_controls(answer.text.strip()))
