"""`pellucid generate`: a run goes on with a prompt, or talks at a prompt of its own."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.beams import add_beams, beams_from
from pellucid.cli.flags.numbers import NEW_TOKENS, SEED, TEMPERATURE, number, whole
from pellucid.cli.flags.stdin import piped
from pellucid.cli.output.generation import print_facts, print_texts, sayer, write
from pellucid.cli.output.streams import add_force, add_json, add_run, add_weights

if TYPE_CHECKING:
    from pellucid.generation import Beams, Sampling
    from pellucid.runs import Run


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "generate",
        help="let a run write",
        description="Go on with a prompt; a run of an encoder-decoder writes anew while it looks "
        "at the text: it translates a source. Without a text, read texts from the terminal, or one "
        "from standard input.",
    )
    add_run(parser)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="what to go on with, or a source")
    parser.add_argument(
        "--prompt", action="append", metavar="TEXT", help="the same; may be repeated"
    )
    parser.add_argument("--max-new-tokens", type=NEW_TOKENS, default=200, metavar="N")
    parser.add_argument("--temperature", type=TEMPERATURE, metavar="T", help="0 is greedy (0.8)")
    parser.add_argument("--top-k", type=whole(), metavar="K", help="draw from the K likeliest")
    parser.add_argument("--top-p", type=number(), metavar="P", help="draw from the best share P")
    parser.add_argument(
        "--min-p", type=number(), metavar="P", help="draw from tokens P times as likely as the best"
    )
    parser.add_argument(
        "--repetition-penalty",
        type=number(),
        metavar="F",
        help="divide the logits of tokens in the text by F (above 1: less repetition)",
    )
    parser.add_argument("--greedy", action="store_true", help="always the likeliest token")
    parser.add_argument("--seed", type=SEED, metavar="S", help="of what is drawn (0)")
    parser.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="stop before this text"
    )
    parser.add_argument(
        "--logprobs",
        action="store_true",
        help="also give the model's own log P of each token it wrote",
    )
    parser.add_argument("--device", default="cpu", metavar="D")
    add_weights(parser)
    add_beams(parser)
    add_force(parser)
    add_json(parser)
    parser.set_defaults(call=call, list_of_words="texts")


def call(arguments: argparse.Namespace) -> None:
    """Write on standard output: the prompt and how it goes on, or what is made of the source."""
    from pellucid import runs

    decoding = beams_from(arguments) or _sampling(arguments)
    prompts: list[str] = [*arguments.texts, *(arguments.prompt or [])]
    talking = not prompts and not arguments.json and sys.stdin is not None and sys.stdin.isatty()
    if not prompts and not talking:
        prompts = [piped("prompt")]
    run = runs.load(arguments.run, device=arguments.device, weights=arguments.weights)
    logprobs, force = arguments.logprobs, arguments.force
    if talking:
        _converse(run, decoding, logprobs=logprobs, force=force)
    elif arguments.json:
        print_facts(run, prompts, decoding, logprobs=logprobs, say=sayer(run), force=force)
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
        write(run, prompts[0], decoding, sayer(run), force=force)
    else:
        print_texts(run, prompts, decoding, logprobs=logprobs, say=sayer(run), force=force)


def _converse(run: Run, decoding: Sampling | Beams, *, logprobs: bool, force: bool) -> None:
    from dataclasses import replace

    from pellucid.generation import Sampling

    does = "goes on with" if run.model.encoder is None else "answers"
    print(f"{run.folder} {does} what you write; an empty line ends it.")
    turn, say = 0, sayer(run)
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
                write(run, prompt, turn_sampling, say, force=force)
            else:
                print_texts(run, [prompt], turn_sampling, logprobs=True, say=say, force=force)
        else:
            print_texts(run, [prompt], decoding, logprobs=logprobs, say=say, force=force)
        turn += 1
