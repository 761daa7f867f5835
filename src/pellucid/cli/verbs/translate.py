"""`pellucid translate`: generate a text from another with an encoder-decoder."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.cli.flags.numbers import BEAMS
from pellucid.cli.flags.read_texts import read_stdin
from pellucid.cli.flags.shared import add_new_tokens, add_run, finish_parser
from pellucid.cli.output.generation import TextPrinter
from pellucid.errors import PellucidError


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "translate",
        help="translate or summarise a text",
        description="Print the likeliest text that a beam search of an encoder-decoder finds for a "
        "source. Without a text, pellucid reads one from standard input. For more flags use "
        "pellucid generate --beams.",
    )
    add_run(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--beams", type=BEAMS, default=4, metavar="N", help="1 is greedy (4)")
    add_new_tokens(parser)
    finish_parser(parser, call, device=True, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Print one translation after another."""
    from pellucid import runs
    from pellucid.generation import Beams

    run = runs.load(arguments.run, device=arguments.device)
    if runs.kind_of(run.model) != "encoder-decoder":
        raise PellucidError(
            f"{arguments.run} is a run of {'a' if runs.kind_of(run.model) == 'decoder' else 'an'} "
            f"{runs.kind_of(run.model)}, and reads no source: train an encoder-decoder with "
            "--objective seq2seq; a decoder answers prompts with pellucid answer"
        )
    texts = arguments.texts or [read_stdin("text")]
    beams = Beams(n_beams=arguments.beams, max_new_tokens=arguments.max_new_tokens)
    TextPrinter(run=run, force=arguments.force).print_texts(arguments, texts, beams)
