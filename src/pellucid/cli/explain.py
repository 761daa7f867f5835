"""`pellucid explain`: what a run makes of a sentence, token by token."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pellucid.cli.output import add_json, add_run, print_json
from pellucid.cli.serve import add_page_flags, serve_page, write_html


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "explain",
        help="show what a run makes of a sentence",
        description="For each token of a sentence: the probability it was given by those before "
        "it, its surprisal, and the tokens that were expected there.",
    )
    add_run(parser)
    parser.add_argument("sentence", metavar="SENTENCE")
    add_json(parser)
    add_page_flags(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> None:
    """Print one line per token, then the whole and what would follow; or make a page of it."""
    if arguments.html is not None:
        write_html(arguments)
        return
    if arguments.serve:
        serve_page(arguments, [arguments.run], arguments.sentence)
        return
    from pellucid import explain, runs

    reading = explain.read_sentence(runs.load(arguments.run), arguments.sentence)
    if arguments.json:
        print_json(asdict(reading) | {"bits": reading.bits})
        return
    width = min(18, max(len(repr(token.token)) for token in reading.tokens))
    print(f"{'':>4} {'token':<{width}} {'p':>7} {'bits':>6}  expected")
    for token in reading.tokens:
        print(
            f"{token.position:>4} {_cut(repr(token.token), width):<{width}} "
            f"{token.probability:>7.4f} {token.surprisal_bits:>6.2f}  {_listed(token.expected)}"
        )
    n = len(reading.tokens)
    print(f"{'':>4} {'then':<{width}} {'':>7} {'':>6}  {_listed(reading.follows)}")
    print(
        f"\n{reading.bits:.2f} bits for {n} tokens, {reading.bits / n:.2f} each "
        f"(guessing: {reading.guessing_bits:.2f})"
    )


def _listed(expected: tuple[tuple[str, float], ...]) -> str:
    return "  ".join(f"{_cut(repr(token), 12)} {p:.2f}" for token, p in expected)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
