"""`pellucid generate`: continue a prompt, once or in a session."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.beams import add_beams, beams_from
from pellucid.cli.flags.numbers import SEED, TEMPERATURE, integer, number
from pellucid.cli.flags.read_texts import read_stdin
from pellucid.cli.flags.shared import (
    add_device,
    add_new_tokens,
    add_run,
    add_weights,
    finish_parser,
)
from pellucid.cli.output.generation import overflow_warner, print_facts, print_texts, write

if TYPE_CHECKING:
    from pellucid.generation import Beams, Sampling
    from pellucid.runs import Run


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "generate",
        help="generate text",
        description="Continue a prompt. An encoder-decoder generates a new text from a source, "
        "such as a translation. Without a text, pellucid reads texts from the terminal, or "
        "one from standard input.",
    )
    add_run(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="a prompt, or a source")
    parser.add_argument(
        "--prompt", action="append", metavar="TEXT", help="a prompt; may be repeated"
    )
    add_new_tokens(parser)
    parser.add_argument("--temperature", type=TEMPERATURE, metavar="T", help="0 is greedy (0.8)")
    parser.add_argument("--top-k", type=integer(), metavar="K", help="sample from the K likeliest")
    parser.add_argument("--top-p", type=number(), metavar="P", help="sample from the best share P")
    parser.add_argument(
        "--min-p",
        type=number(),
        metavar="P",
        help="sample from tokens at least P times as likely as the best",
    )
    parser.add_argument(
        "--repetition-penalty",
        type=number(),
        metavar="F",
        help="divide the logits of tokens in the text by F (above 1: less repetition)",
    )
    parser.add_argument("--greedy", action="store_true", help="always the likeliest token")
    parser.add_argument("--seed", type=SEED, metavar="S", help="sampling seed (0)")
    parser.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="stop before this text"
    )
    parser.add_argument(
        "--logprobs",
        action="store_true",
        help="also print the model's log P of each generated token",
    )
    add_device(parser)
    add_weights(parser)
    add_beams(parser)
    finish_parser(parser, call, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Print the prompt with its continuation, or the text generated from the source."""
    from pellucid import runs

    decoding = beams_from(arguments) or _sampling(arguments)
    prompts: list[str] = [*arguments.texts, *(arguments.prompt or [])]
    is_session = not prompts and not arguments.json and sys.stdin is not None and sys.stdin.isatty()
    if not prompts and not is_session:
        prompts = [read_stdin("prompt")]
    run = runs.load(arguments.run, device=arguments.device, weights=arguments.weights)
    logprobs, force = arguments.logprobs, arguments.force
    if is_session:
        _converse(run, decoding, logprobs=logprobs, force=force)
    elif arguments.json:
        print_facts(
            run, prompts, decoding, logprobs=logprobs, warn=overflow_warner(run), force=force
        )
    else:
        _print(run, prompts, decoding, logprobs=logprobs, force=force)


def _sampling(arguments: argparse.Namespace) -> Sampling:
    from pellucid.generation import Sampling

    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
    choices = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if arguments.greedy:
        choices["temperature"] = 0.0
    return Sampling(max_new_tokens=arguments.max_new_tokens, stop=tuple(arguments.stop), **choices)


def _print(
    run: Run, prompts: list[str], decoding: Sampling | Beams, *, logprobs: bool, force: bool
) -> None:
    from pellucid.generation import Sampling

    if isinstance(decoding, Sampling) and len(prompts) == 1 and not logprobs:
        write(run, prompts[0], decoding, overflow_warner(run), force=force)
    else:
        print_texts(
            run, prompts, decoding, logprobs=logprobs, warn=overflow_warner(run), force=force
        )


def _converse(run: Run, decoding: Sampling | Beams, *, logprobs: bool, force: bool) -> None:
    from dataclasses import replace

    from pellucid.generation import Sampling

    action = "continues" if run.model.encoder is None else "answers"
    print(f"{run.folder} {action} what you write; an empty line ends the session.")
    turn, warn = 0, overflow_warner(run)
    while True:
        try:
            prompt = input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            break
        if not prompt:
            break
        if isinstance(decoding, Sampling):
            turn_sampling = replace(decoding, seed=(decoding.seed + turn) % 2**63)
            if not logprobs:
                write(run, prompt, turn_sampling, warn, force=force)
            else:
                print_texts(run, [prompt], turn_sampling, logprobs=True, warn=warn, force=force)
        else:
            print_texts(run, [prompt], decoding, logprobs=logprobs, warn=warn, force=force)
        turn += 1
