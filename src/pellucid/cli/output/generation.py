"""Print generated texts, for people and as JSON.

A decoder's text follows its prompt. An encoder-decoder's text is complete, without its source.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pellucid.cli.output.printing import escape_controls, print_json

if TYPE_CHECKING:
    from pellucid.generation import BeamContinuation, Beams, Continuation, Sampling
    from pellucid.runs import Run

Warn = Callable[[], None]


def overflow_warner(run: Run) -> Warn:
    """A function that warns once that a text is longer than the context."""
    from pellucid.generation import seen_past_context

    context = run.model.context_length
    warned = False

    def warn() -> None:
        nonlocal warned
        if not warned:
            print(
                f"the text outgrew the context of {context:,} tokens: from here on the model sees "
                f"{seen_past_context(context)} of it",
                file=sys.stderr,
            )
        warned = True

    return warn


def print_facts(
    run: Run,
    prompts: Sequence[str],
    decoding: Sampling | Beams,
    *,
    logprobs: bool,
    warn: Warn,
    force: bool,
) -> None:
    """Print everything as JSON: a text for each prompt, or the best ones of a beam search."""
    from pellucid import runs
    from pellucid.generation import Beams

    prompt_key = "prompt" if runs.kind_of(run.model) == "decoder" else "source"
    if isinstance(decoding, Beams):
        hypotheses = runs.beam_search(run, prompts, decoding, when_outgrown=warn, force=force)
        texts = [
            {"best": [_search_facts(hypothesis, logprobs=logprobs) for hypothesis in best]}
            for best in hypotheses
        ]
    else:
        continuations = runs.generate(run, prompts, decoding, when_outgrown=warn, force=force)
        texts = [_text_facts(text, logprobs=logprobs) for text in continuations]
    print_json([{prompt_key: p} | text for p, text in zip(prompts, texts, strict=True)])


def _text_facts(text: Continuation, *, logprobs: bool) -> dict[str, Any]:
    facts = {"text": text.text, "ids": text.ids, "stopped": text.stopped}
    return facts | ({"logprobs": text.log_p} if logprobs else {})


def _search_facts(text: BeamContinuation, *, logprobs: bool) -> dict[str, Any]:
    ranked_by = {"score": text.score, "log_p": text.total_log_p}
    return _text_facts(text, logprobs=logprobs) | ranked_by


def print_texts(
    run: Run,
    prompts: Sequence[str],
    decoding: Sampling | Beams,
    *,
    logprobs: bool,
    warn: Warn,
    force: bool,
) -> None:
    """Print one text after another; with `logprobs` also the log P of each token."""
    from pellucid import runs
    from pellucid.generation import Beams

    if isinstance(decoding, Beams):
        texts_by_prompt = runs.beam_search(run, prompts, decoding, when_outgrown=warn, force=force)
    else:
        texts_by_prompt = [
            [text]
            for text in runs.generate(run, prompts, decoding, when_outgrown=warn, force=force)
        ]
    for prompt, texts in zip(prompts, texts_by_prompt, strict=True):
        for rank, text in enumerate(texts, start=1):
            if isinstance(decoding, Beams) and decoding.n_best > 1:
                _print_rank(rank, text)
            print(escape_controls(f"{visible_prompt(run, prompt)}{text.text}\n"))
            if logprobs:
                _print_log_p(run, text)


def _print_rank(rank: int, text: Continuation) -> None:
    from pellucid.generation import BeamContinuation

    if isinstance(text, BeamContinuation):
        print(f"{rank}. score {text.score:.4f}, log P {text.total_log_p:.4f} nats")


def _print_log_p(run: Run, text: Continuation) -> None:
    for token_id, log_p in zip(text.ids, text.log_p, strict=True):
        print(f"{log_p:>10.4f}  {run.tokenizer.token(token_id)!r}")
    print(f"{sum(text.log_p):>10.4f}  log P of the text, in nats\n")


def write(run: Run, prompt: str, sampling: Sampling, warn: Warn, *, force: bool) -> None:
    """Print one text token by token, as the model generates it."""
    from pellucid.generation import stream
    from pellucid.saved_runs.inference_memory import check_writing

    check_writing(run, [prompt], sampling, force=force)
    pieces = stream(run.model, run.tokenizer, prompt, sampling, when_outgrown=warn)
    print(escape_controls(visible_prompt(run, prompt)), end="", flush=True)
    for piece in pieces:
        print(escape_controls(piece), end="", flush=True)
    print()


def visible_prompt(run: Run, prompt: str) -> str:
    """The prompt as printed before its continuation; empty for a source."""
    return prompt if run.model.encoder is None else ""
