"""`pellucid fill`: predict the masked words of a text."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import integer
from pellucid.cli.flags.read_texts import read_stdin
from pellucid.cli.flags.shared import add_run, finish_parser
from pellucid.cli.output.printing import print_result

if TYPE_CHECKING:
    from pellucid.runs import Filling


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "fill",
        help="fill the masked words of a text",
        description="Print the likeliest tokens at each mask of a text, by a run of an encoder. "
        "Write a mask as the run's tokenizer does: [MASK] or <mask>. pellucid fills several masks "
        "independently.",
    )
    add_run(parser)
    parser.add_argument("text", metavar="TEXT", help="the text, or - for standard input")
    parser.add_argument("--top", type=integer(), default=5, metavar="N", help="the N likeliest (5)")
    finish_parser(parser, call, device=True, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Print a table for each mask, and the text with the likeliest tokens."""
    from pellucid import runs

    text = read_stdin("text") if arguments.text == "-" else arguments.text
    run = runs.load(arguments.run, device=arguments.device)
    filling = runs.fill(run, text, top=arguments.top)
    print_result(arguments, asdict(filling), _format(filling))


def _format(filling: Filling) -> Iterator[str]:
    many_masks = len(filling.masks) > 1
    for number, mask in enumerate(filling.masks, start=1):
        if many_masks:
            yield f"mask {number}, token {mask.position}"
        for candidate in mask.likeliest:
            yield f"{candidate.probability:>10.4f}  {candidate.token!r}"
        yield ""
    yield filling.filled
    if many_masks:
        yield "\neach mask was filled while the others stayed masked"
