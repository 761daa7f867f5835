"""What a run wrote, on standard output: for people, and as JSON.

Comes in: a run, prompts, how to write. Goes out: lines. It does not know flags.

What a decoder wrote is shown behind its prompt. An encoder-decoder's is a text of its own, so its
source is not shown.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pellucid.cli.output.streams import print_json

if TYPE_CHECKING:
    from pellucid.generation import Beams, Continuation, Found, Sampling
    from pellucid.runs import Run

Say = Callable[[], None]


def sayer(run: Run) -> Say:
    """What says, the first time it is called, that a text outgrew the context."""
    from pellucid.generation import seen_past_context

    context = run.model.context_length
    warned = False

    def say() -> None:
        nonlocal warned
        if not warned:
            print(
                f"the text outgrew the context of {context:,} tokens: from here on the model sees "
                f"{seen_past_context(context)} of it",
                file=sys.stderr,
            )
        warned = True

    return say


def print_facts(
    run: Run,
    prompts: Sequence[str],
    how: Sampling | Beams,
    *,
    logprobs: bool,
    say: Say,
    force: bool,
) -> None:
    """Everything as JSON: a text for each prompt, or the best ones where texts were searched."""
    from pellucid import runs
    from pellucid.generation import Beams

    prompt_key = "prompt" if runs.kind_of(run.model) == "decoder" else "source"
    if isinstance(how, Beams):
        hypotheses = runs.beam_search(run, prompts, how, when_outgrown=say, force=force)
        texts = [
            {"best": [_search_facts(hypothesis, logprobs=logprobs) for hypothesis in best]}
            for best in hypotheses
        ]
    else:
        written = runs.generate(run, prompts, how, when_outgrown=say, force=force)
        texts = [_written(text, logprobs=logprobs) for text in written]
    print_json([{prompt_key: p} | text for p, text in zip(prompts, texts, strict=True)])


def _written(text: Continuation, *, logprobs: bool) -> dict[str, Any]:
    facts = {"text": text.text, "ids": text.ids, "stopped": text.stopped}
    return facts | ({"logprobs": text.log_p} if logprobs else {})


def _search_facts(text: Found, *, logprobs: bool) -> dict[str, Any]:
    ranked_by = {"score": text.score, "log_p": text.total_log_p}
    return _written(text, logprobs=logprobs) | ranked_by


def print_texts(
    run: Run,
    prompts: Sequence[str],
    how: Sampling | Beams,
    *,
    logprobs: bool,
    say: Say,
    force: bool,
) -> None:
    """One text after another, each with its log P, token by token, where that was asked for."""
    from pellucid import runs
    from pellucid.generation import Beams

    if isinstance(how, Beams):
        texts_by_prompt = runs.beam_search(run, prompts, how, when_outgrown=say, force=force)
    else:
        texts_by_prompt = [
            [text] for text in runs.generate(run, prompts, how, when_outgrown=say, force=force)
        ]
    for prompt, texts in zip(prompts, texts_by_prompt, strict=True):
        for rank, text in enumerate(texts, start=1):
            if isinstance(how, Beams) and how.n_best > 1:
                _print_rank(rank, text)
            print(harmless(f"{shown(run, prompt)}{text.text}\n"))
            if logprobs:
                _print_log_p(run, text)


def _print_rank(rank: int, text: Continuation) -> None:
    from pellucid.generation import Found

    if isinstance(text, Found):
        print(f"{rank}. score {text.score:.4f}, log P {text.total_log_p:.4f} nats")


def _print_log_p(run: Run, text: Continuation) -> None:
    for token_id, log_p in zip(text.ids, text.log_p, strict=True):
        print(f"{log_p:>10.4f}  {run.tokenizer.token(token_id)!r}")
    print(f"{sum(text.log_p):>10.4f}  log P of what was written, in nats\n")


def write(run: Run, prompt: str, sampling: Sampling, say: Say, *, force: bool) -> None:
    """One text as it becomes known."""
    from pellucid.generation import stream
    from pellucid.saved_runs.inference_memory import check_writing

    check_writing(run, [prompt], sampling, force=force)
    pieces = stream(run.model, run.tokenizer, prompt, sampling, when_outgrown=say)
    print(harmless(shown(run, prompt)), end="", flush=True)
    for piece in pieces:
        print(harmless(piece), end="", flush=True)
    print()


def shown(run: Run, prompt: str) -> str:
    """What stands before what a run wrote."""
    return prompt if run.model.encoder is None else ""


def harmless(text: str) -> str:
    """On a terminal, control characters of a model are drawn and not obeyed."""
    from pellucid.display import visible

    if not sys.stdout.isatty():
        return text
    return re.sub(r"[^\n\t]+", lambda part: visible(part[0]), text)
