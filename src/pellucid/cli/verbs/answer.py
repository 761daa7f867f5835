"""`pellucid answer`: a run that was tuned on answers gives one."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import NEW_TOKENS, SEED, TEMPERATURE
from pellucid.cli.flags.stdin import piped
from pellucid.cli.output.generation import harmless, sayer
from pellucid.cli.output.streams import add_force, add_json, add_run, print_json
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.generation import Sampling
    from pellucid.runs import Run


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "answer",
        help="ask a run that was tuned to answer",
        description="Put prompts through the template that a run was tuned with, and print what it "
        "answers. Without a text, read texts from the terminal, or one from standard input.",
    )
    add_run(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--max-new-tokens", type=NEW_TOKENS, default=200, metavar="N")
    parser.add_argument(
        "--temperature",
        type=TEMPERATURE,
        default=0.0,
        metavar="T",
        help="0 is greedy (default)",
    )
    parser.add_argument("--seed", type=SEED, default=0, metavar="S", help="of what is drawn (0)")
    parser.add_argument("--device", default="cpu", metavar="D")
    add_force(parser)
    add_json(parser)
    parser.set_defaults(call=call, list_of_words="texts")


def call(arguments: argparse.Namespace) -> None:
    """One answer after another."""
    from pellucid import runs
    from pellucid.generation import Sampling

    texts: list[str] = arguments.texts
    talking = not texts and not arguments.json and sys.stdin is not None and sys.stdin.isatty()
    if not texts and not talking:
        texts = [piped("prompt")]
    run = runs.load(arguments.run, device=arguments.device)
    sampling = Sampling(
        max_new_tokens=arguments.max_new_tokens,
        temperature=arguments.temperature,
        seed=arguments.seed,
    )
    if talking:
        _converse(run, sampling)
        return
    answers = runs.answer(run, texts, sampling, when_outgrown=sayer(run), force=arguments.force)
    if arguments.json:
        print_json(
            [
                {
                    "prompt": prompt,
                    "text": answer.text,
                    "ids": answer.ids,
                    "stopped": answer.stopped,
                }
                for prompt, answer in zip(texts, answers, strict=True)
            ]
        )
        return
    for answer in answers:
        print(harmless(answer.text.strip()))


def _converse(run: Run, sampling: Sampling) -> None:
    from pellucid import runs

    print(f"{run.folder} answers what you write; an empty line ends it.")
    say = sayer(run)
    while True:
        try:
            prompt = input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if not prompt.strip():
            return
        try:
            (answer,) = runs.answer(run, prompt, sampling, when_outgrown=say)
        except PellucidError as error:  # one prompt was too long; the next one need not be
            print(error, file=sys.stderr)
            continue
        print(harmless(answer.text.strip()))
