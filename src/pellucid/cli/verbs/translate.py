"""`pellucid translate`: a run of an encoder-decoder writes what a text becomes."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.cli.flags.numbers import BEAMS, NEW_TOKENS
from pellucid.cli.flags.stdin import piped
from pellucid.cli.output.generation import print_facts, print_texts, sayer
from pellucid.cli.output.streams import add_force, add_json, add_run
from pellucid.errors import PellucidError


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "translate",
        help="write what a text becomes: its translation, its summary",
        description="What an encoder-decoder writes while it looks at a text: the likeliest that a "
        "beam search finds. Without a text, read one from standard input. The same as pellucid "
        "generate with --beams, which has more flags.",
    )
    add_run(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--beams", type=BEAMS, default=4, metavar="N", help="1 is greedy (4)")
    parser.add_argument("--max-new-tokens", type=NEW_TOKENS, default=200, metavar="N")
    parser.add_argument("--device", default="cpu", metavar="D")
    add_force(parser)
    add_json(parser)
    parser.set_defaults(call=call, list_of_words="texts")


def call(arguments: argparse.Namespace) -> None:
    """One translation after another."""
    from pellucid import runs
    from pellucid.generation import Beams

    run = runs.load(arguments.run, device=arguments.device)
    if runs.kind_of(run.model) != "encoder-decoder":
        raise PellucidError(
            f"{arguments.run} is a run of {'a' if runs.kind_of(run.model) == 'decoder' else 'an'} "
            f"{runs.kind_of(run.model)}, and does not look at one text while it writes another: "
            "train one with --objective seq2seq; a decoder answers prompts with pellucid answer"
        )
    texts = arguments.texts or [piped("text")]
    beams = Beams(n_beams=arguments.beams, max_new_tokens=arguments.max_new_tokens)
    print_in = print_facts if arguments.json else print_texts
    print_in(run, texts, beams, logprobs=False, say=sayer(run), force=arguments.force)
