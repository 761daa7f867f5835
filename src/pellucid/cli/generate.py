"""`pellucid generate`: a run goes on with a prompt, or talks at a prompt of its own."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any

from pellucid.cli.output import add_json, print_json
from pellucid.cli.piped import piped

if TYPE_CHECKING:
    from pellucid.generation import Sampling
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
    parser.add_argument("--greedy", action="store_true", help="always the likeliest token")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="stop before this text"
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
        _converse(run, sampling)
        return
    if arguments.json:
        texts = runs.generate(run, prompts, sampling)
        print_json(
            [
                {"prompt": prompt, "text": text.text, "ids": text.ids, "stopped": text.stopped}
                for prompt, text in zip(prompts, texts, strict=True)
            ]
        )
    elif len(prompts) == 1:
        _write(run, prompts[0], sampling)
    else:
        for prompt, text in zip(prompts, runs.generate(run, prompts, sampling), strict=True):
            print(_harmless(f"{prompt}{text.text}\n"))


def _write(run: Run, prompt: str, sampling: Sampling) -> None:
    from pellucid.generation import stream

    print(_harmless(prompt), end="", flush=True)
    for piece in stream(run.model, run.tokenizer, prompt, sampling):
        print(_harmless(piece), end="", flush=True)
    print()


def _harmless(text: str) -> str:
    """On a terminal, control characters of a model are drawn and not obeyed."""
    from pellucid.display import visible

    if not sys.stdout.isatty():
        return text
    return re.sub(r"[^\n\t]+", lambda part: visible(part[0]), text)


def _converse(run: Run, sampling: Sampling) -> None:
    from dataclasses import replace

    print(f"{run.folder} goes on with what you write; an empty line ends it.")
    turn = 0
    while True:
        try:
            prompt = input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            break
        if not prompt:
            break
        _write(run, prompt, replace(sampling, seed=(sampling.seed + turn) % 2**63))
        turn += 1
