"""`pellucid score`: the probability of a text, and of each possible next token."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import integer
from pellucid.cli.flags.read_texts import read_stdin
from pellucid.cli.flags.shared import add_run, finish_parser
from pellucid.cli.output.printing import cut, print_result

if TYPE_CHECKING:
    from pellucid.runs import Prediction, Score


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "score",
        help="the probability of a text, token by token",
        description="Print P of each token given the tokens before it (the first: given "
        "begin-of-text), log P of the text, perplexity and bits per byte. With --next: the "
        "distribution of the next token.",
    )
    add_run(parser)
    parser.add_argument("text", metavar="TEXT", help="the text, or - for standard input")
    parser.add_argument(
        "--next", action="store_true", help="show the distribution of the next token"
    )
    parser.add_argument(
        "--top", type=integer(), default=10, metavar="N", help="with --next: the N likeliest (10)"
    )
    finish_parser(parser, call, device=True, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Print one line per token and the totals, or the distribution of the next token."""
    from pellucid import runs

    text = read_stdin("text") if arguments.text == "-" else arguments.text
    run = runs.load(arguments.run, device=arguments.device)
    if arguments.next:
        prediction = runs.next_token(run, text, top=arguments.top)
        _warn_of_truncation(prediction.window_start, run.model.context_length)
        facts = {"text": text} | _next_facts(prediction)
        print_result(arguments, facts, _format_next(prediction))
        return
    score = runs.score(run, text)
    _warn_of_truncation(score.tokens[-1].window_start, score.context_length)
    print_result(arguments, _facts(score), chain(_token_lines(score), _total_lines(score)))


def _warn_of_truncation(first_seen: int, context: int) -> None:
    from pellucid.generation import seen_past_context

    if first_seen:
        print(
            f"the text outgrew the context of {context:,} tokens: from there on each token is "
            f"predicted from {seen_past_context(context)} before it",
            file=sys.stderr,
        )


def _facts(score: Score) -> dict[str, Any]:
    """Everything for JSON; an infinite number becomes null."""
    return {
        "text": score.text,
        "tokens": [
            {
                "position": token.position,
                "token_id": token.token_id,
                "token": token.token,
                "probability": token.probability,
                "log_p": _finite(token.log_p),
                "seen_from": token.window_start,
            }
            for token in score.tokens
        ],
        "log_p": _finite(score.log_p),
        "perplexity": _finite(score.perplexity),
        "bits_per_byte": _finite(score.bits_per_byte),
        "bytes": score.n_bytes,
        "unknown_tokens": score.unknown_tokens,
        "changed": score.is_altered,
        "context_length": score.context_length,
        "windows": score.windows,
        "products": {
            width: {"value": value, "zero_from_position": zero}
            for width, value, zero in score.products()
        },
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _next_facts(prediction: Prediction) -> dict[str, Any]:
    return {
        "seen": prediction.n_tokens,
        "seen_from": prediction.window_start,
        "next": [asdict(candidate) for candidate in prediction.likeliest],
    }


def _token_lines(score: Score) -> Iterator[str]:
    width = min(24, max(5, *(len(repr(token.token)) for token in score.tokens)))
    yield f"{'':>6} {'token':<{width}} {'P(token)':>10} {'log P':>9} {'log P so far':>13}"
    so_far = 0.0
    for token in score.tokens:
        so_far += token.log_p
        yield (
            f"{token.position:>6} {cut(repr(token.token), width):<{width}} "
            f"{token.probability:>10.4g} {token.log_p:>9.4f} {so_far:>13.4f}"
        )


def _total_lines(score: Score) -> Iterator[str]:
    n = len(score.tokens)
    yield f"\nlog P(text)    {score.log_p:.4f} nats: the sum of {n:,} logarithms"
    for width, value, zero in score.products():
        lost = "" if zero is None else f": underflowed to 0 at token {zero:,}"
        yield f"product of P   {value:.4g} in {width}{lost}"
    yield f"perplexity     {score.perplexity:.2f} per token"
    yield f"bits per byte  {score.bits_per_byte:.4f} over {score.n_bytes:,} bytes"
    if score.unknown_tokens:
        yield (
            f"unknown        {score.unknown_tokens:,} tokens the tokenizer cannot spell: bits per\n"
            "               byte flatter the model"
        )
    elif score.is_altered:
        yield (
            "changed        the text does not come back as it was: letters or white space;\n"
            "               bits per byte flatter the model"
        )


def _format_next(prediction: Prediction) -> Iterator[str]:
    width = max(5, *(len(cut(repr(candidate.token), 24)) for candidate in prediction.likeliest))
    yield f"{'':>4} {'token':<{width}} {'P(token)':>10} {'together':>9}"
    cumulative = 0.0
    for rank, candidate in enumerate(prediction.likeliest, start=1):
        cumulative += candidate.probability
        yield (
            f"{rank:>4} {cut(repr(candidate.token), 24):<{width}} {candidate.probability:>10.4g} "
            f"{cumulative:>9.4f}"
        )
