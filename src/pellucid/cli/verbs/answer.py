"""`pellucid answer` and `pellucid chat`: ask a run once, or talk with it."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import NEW_TOKENS, SEED, TEMPERATURE, number
from pellucid.cli.flags.read_texts import prompts_or_session
from pellucid.cli.flags.shared import (
    add_device,
    add_new_tokens,
    add_run,
    add_weights,
    finish_parser,
)
from pellucid.cli.output.chat import ChatScreen
from pellucid.cli.output.generation import TextPrinter, read_prompts
from pellucid.cli.output.printing import escape_controls, print_json, print_result
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.generation import Sampling
    from pellucid.runs import Run


def add_to(verbs: Any) -> None:
    """Both verbs and their flags."""
    _add_answer(verbs)
    _add_chat(verbs)


def _add_answer(verbs: Any) -> None:
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


def _add_chat(verbs: Any) -> None:
    parser = verbs.add_parser(
        "chat",
        help="talk with a run",
        description="A conversation of several turns with a run that was tuned on chats; a base "
        "model continues your text instead. Without a terminal, each line of standard input is a "
        "message, and its answer is printed. /help lists the commands.",
    )
    add_run(parser)
    parser.add_argument("--system", metavar="TEXT", default="", help="the system message")
    parser.add_argument(
        "--max-new-tokens",
        type=NEW_TOKENS,
        default=1024,
        metavar="N",
        help="write N tokens at most for each answer (1024)",
    )
    parser.add_argument(
        "--temperature", type=TEMPERATURE, default=0.7, metavar="T", help="0 is greedy (0.7)"
    )
    parser.add_argument("--top-p", type=number(), metavar="P", help="sample from the best share P")
    parser.add_argument("--seed", type=SEED, default=0, metavar="S", help="sampling seed (0)")
    add_device(parser)
    add_weights(parser)
    finish_parser(parser, talk, force=True, huge_pages=False)


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


def talk(arguments: argparse.Namespace) -> None:
    """Talk until the input ends."""
    from pellucid import runs
    from pellucid.generation import Sampling
    from pellucid.inference import Conversation

    sampling = Sampling(
        max_new_tokens=arguments.max_new_tokens,
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        seed=arguments.seed,
    )
    run = runs.load(
        arguments.run,
        device=arguments.device,
        weights=arguments.weights,
        packed=True,
        calibrate=arguments.calibrate,
    )
    conversation = Conversation(run, sampling, system=arguments.system, force=arguments.force)
    with closing(conversation):
        is_terminal = sys.stdin is not None and sys.stdin.isatty() and not arguments.json
        screen = ChatScreen(conversation, is_terminal=is_terminal, as_json=arguments.json)
        screen.run()
        if arguments.json:
            print_json(screen.facts)
