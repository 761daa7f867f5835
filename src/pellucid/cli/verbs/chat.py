"""`pellucid chat`: talk with a run, in a terminal or line by line."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from typing import Any

from pellucid.cli.flags.numbers import NEW_TOKENS, SEED, TEMPERATURE, number
from pellucid.cli.flags.shared import add_device, add_run, add_weights, finish_parser
from pellucid.cli.output.chat import ChatScreen
from pellucid.cli.output.printing import print_json


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
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
    finish_parser(parser, call, force=True)


def call(arguments: argparse.Namespace) -> None:
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
    run = runs.load(arguments.run, device=arguments.device, weights=arguments.weights)
    talk = Conversation(run, sampling, system=arguments.system, force=arguments.force)
    with closing(talk):
        is_terminal = sys.stdin is not None and sys.stdin.isatty() and not arguments.json
        screen = ChatScreen(talk, is_terminal=is_terminal, as_json=arguments.json)
        screen.run()
        if arguments.json:
            print_json(screen.facts)
