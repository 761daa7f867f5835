"""`pellucid generate`: a run goes on with a prompt, or talks at a prompt of its own."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pellucid.cli.output import add_json, print_json
from pellucid.cli.piped import piped

if TYPE_CHECKING:
    from pellucid.generation import Continuation, Sampling
    from pellucid.runs import Run


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "generate",
        help="let a run write",
        description="Go on with a prompt. Without --prompt, read prompts from the terminal, or "
        "one from standard input.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder, or one of its checkpoints")
    parser.add_argument(
        "--prompt", action="append", metavar="TEXT", help="what to go on with; may be repeated"
    )
    parser.add_argument("--max-new-tokens", type=int, default=200, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.8, metavar="T")
    parser.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest tokens")
    parser.add_argument("--top-p", type=float, metavar="P", help="draw from the likeliest share P")
    parser.add_argument(
        "--min-p", type=float, metavar="P", help="draw from tokens P times as likely as the best"
    )
    parser.add_argument(
        "--repetition-penalty",
        type=float,
        default=1.0,
        metavar="F",
        help="divide the logits of tokens in the text by F (above 1: less repetition)",
    )
    parser.add_argument("--greedy", action="store_true", help="always the likeliest token")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="stop before this text"
    )
    parser.add_argument(
        "--logprobs",
        action="store_true",
        help="also give the model's own log P of each token it wrote",
    )
    parser.add_argument("--device", default="cpu", metavar="D")
    add_json(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> None:
    """Write on standard output: the prompt and how it goes on."""
    from pellucid import runs
    from pellucid.generation import Sampling

    sampling = Sampling(
        max_new_tokens=arguments.max_new_tokens,
        temperature=0.0 if arguments.greedy else arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        repetition_penalty=arguments.repetition_penalty,
        seed=arguments.seed,
        stop=tuple(arguments.stop),
    )
    prompts: list[str] | None = arguments.prompt
    talking = (
        prompts is None and not arguments.json and sys.stdin is not None and sys.stdin.isatty()
    )
    if prompts is None and not talking:
        prompts = [piped("prompt")]
    run = runs.load(arguments.run, device=arguments.device)
    if prompts is None:
        _converse(run, sampling, logprobs=arguments.logprobs)
    elif arguments.json:
        _print_facts(run, prompts, sampling, logprobs=arguments.logprobs)
    elif len(prompts) == 1 and not arguments.logprobs:
        _write(run, prompts[0], sampling, _sayer(run))
    else:
        _print_texts(run, prompts, sampling, logprobs=arguments.logprobs)


def _sayer(run: Run) -> Callable[[], None]:
    """What says, the first time it is called, that a text outgrew the context."""
    from pellucid.generation import seen_past_context

    context = run.model.context_length
    said = False

    def say() -> None:
        nonlocal said
        if not said:
            print(
                f"the text outgrew the context of {context:,} tokens: from here on the model sees "
                f"{seen_past_context(context)} of it",
                file=sys.stderr,
            )
        said = True

    return say


def _print_facts(run: Run, prompts: list[str], sampling: Sampling, *, logprobs: bool) -> None:
    from pellucid import runs

    texts = runs.generate(run, prompts, sampling, when_outgrown=_sayer(run))
    print_json(
        [
            {"prompt": prompt, "text": text.text, "ids": text.ids, "stopped": text.stopped}
            | ({"logprobs": text.log_p} if logprobs else {})
            for prompt, text in zip(prompts, texts, strict=True)
        ]
    )


def _print_texts(run: Run, prompts: list[str], sampling: Sampling, *, logprobs: bool) -> None:
    from pellucid import runs

    texts = runs.generate(run, prompts, sampling, when_outgrown=_sayer(run))
    for prompt, text in zip(prompts, texts, strict=True):
        print(_harmless(f"{prompt}{text.text}\n"))
        if logprobs:
            _print_log_p(run, text)


def _print_log_p(run: Run, text: Continuation) -> None:
    for token_id, log_p in zip(text.ids, text.log_p, strict=True):
        print(f"{log_p:>10.4f}  {run.tokenizer.token(token_id)!r}")
    print(f"{sum(text.log_p):>10.4f}  log P of what was written, in nats\n")


def _write(run: Run, prompt: str, sampling: Sampling, say: Callable[[], None]) -> None:
    from pellucid.generation import stream

    print(_harmless(prompt), end="", flush=True)
    for piece in stream(run.model, run.tokenizer, prompt, sampling, when_outgrown=say):
        print(_harmless(piece), end="", flush=True)
    print()


def _harmless(text: str) -> str:
    """On a terminal, control characters of a model are drawn and not obeyed."""
    from pellucid.display import visible

    if not sys.stdout.isatty():
        return text
    return re.sub(r"[^\n\t]+", lambda part: visible(part[0]), text)


def _converse(run: Run, sampling: Sampling, *, logprobs: bool) -> None:
    from dataclasses import replace

    print(f"{run.folder} goes on with what you write; an empty line ends it.")
    turn, say = 0, _sayer(run)
    while True:
        try:
            prompt = input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            break
        if not prompt:
            break
        how = replace(sampling, seed=(sampling.seed + turn) % 2**63)
        if logprobs:
            _print_texts(run, [prompt], how, logprobs=True)
        else:
            _write(run, prompt, how, say)
        turn += 1
