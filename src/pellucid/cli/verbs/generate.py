"""`pellucid generate`: continue a prompt, once or in a session."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pellucid.cli.flags.beams import add_beams, beams_from
from pellucid.cli.flags.numbers import SEED, TEMPERATURE, integer, number
from pellucid.cli.flags.read_texts import prompts_or_session
from pellucid.cli.flags.shared import (
    add_device,
    add_new_tokens,
    add_run,
    add_weights,
    finish_parser,
)
from pellucid.cli.output.generation import TextPrinter, read_prompts
from pellucid.errors import ConfigError

if TYPE_CHECKING:
    from pellucid.generation import Beams, Sampling
    from pellucid.model import Transformer
    from pellucid.saved_runs.load import Run


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
        "--guesses",
        type=integer(0, 32),
        metavar="N",
        help="guess up to N tokens ahead from what the text repeats, and check them in one pass: "
        "the same text, sooner (0; with --draft 4)",
    )
    parser.add_argument(
        "--draft",
        metavar="RUN",
        help="let this smaller run with the same tokenizer guess the tokens ahead: the same text, "
        "sooner if most of them are right",
    )
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
    finish_parser(parser, call, force=True, huge_pages=False)


def call(arguments: argparse.Namespace) -> None:
    """Print the prompt with its continuation, or the text generated from the source."""
    from pellucid.saved_runs.load import load  # `pellucid.runs` loads 14 MB more

    decoding = beams_from(arguments) or _sampling(arguments)
    prompts = prompts_or_session(arguments, [*arguments.texts, *(arguments.prompt or [])])
    run = load(
        arguments.run,
        device=arguments.device,
        weights=arguments.weights,
        packed=True,
        calibrate=arguments.calibrate,
    )
    if arguments.draft is not None:
        decoding = replace(cast("Sampling", decoding), draft=_draft(arguments, run))
    printer = TextPrinter(run=run, logprobs=arguments.logprobs, force=arguments.force)
    if not prompts:
        _converse(arguments, printer, decoding)
    elif len(prompts) == 1 and not arguments.json:
        _print_one(arguments, printer, prompts[0], decoding)
    else:
        printer.print_texts(arguments, prompts, decoding)


def _draft(arguments: argparse.Namespace, run: Run) -> Transformer:
    """The model that guesses, in the same type of matrices.

    Raises:
        ConfigError: it has another tokenizer.
    """
    from pellucid.saved_runs.load import load

    draft = load(arguments.draft, device=arguments.device, weights=arguments.weights, packed=True)
    if draft.require_tokenizer().sha256 != run.require_tokenizer().sha256:
        raise ConfigError(
            f"--draft {arguments.draft} has another tokenizer than {arguments.run}: it cannot "
            "guess its tokens; distil a smaller model from the run with `pellucid distill`"
        )
    return draft.model


def _sampling(arguments: argparse.Namespace) -> Sampling:
    from pellucid.generation import Sampling

    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "guesses")
    choices = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    if arguments.greedy:
        choices["temperature"] = 0.0
    if arguments.draft is not None:
        choices.setdefault("guesses", 4)
    return Sampling(max_new_tokens=arguments.max_new_tokens, stop=tuple(arguments.stop), **choices)


def _print_one(
    arguments: argparse.Namespace, printer: TextPrinter, prompt: str, decoding: Sampling | Beams
) -> None:
    """One text; if it is sampled and without log P, token by token."""
    from pellucid.generation import Sampling

    if isinstance(decoding, Sampling) and not printer.logprobs:
        printer.stream(prompt, decoding)
    else:
        printer.print_texts(arguments, [prompt], decoding)


def _converse(
    arguments: argparse.Namespace, printer: TextPrinter, decoding: Sampling | Beams
) -> None:
    from pellucid.generation import Sampling

    action = "continues" if printer.run.model.encoder is None else "answers"
    for prompt in read_prompts(printer.run, action):
        _print_one(arguments, printer, prompt, decoding)
        if isinstance(decoding, Sampling):
            decoding = replace(decoding, seed=(decoding.seed + 1) % 2**63)
