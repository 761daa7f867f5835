"""Texts that a run writes: for its user, and for the fixed sentence while it trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from pellucid.generation import BeamContinuation, Beams, Continuation, Sampling, generate_after
from pellucid.generation import beam_search as search_texts
from pellucid.generation import generate as generate_texts
from pellucid.model import Encoded, Transformer
from pellucid.saved_runs.inference_memory import check_writing
from pellucid.saved_runs.load import Run
from pellucid.tokenizers import Tokenizer
from pellucid.training import Sampled
from pellucid.typed import eagerly

_SHOWN_TOKENS = 3
_CONTINUATION_TOKENS = 24
#: Keeps a small model from repeating its likeliest words (Keskar et al. 2019).
_AGAINST_CIRCLES = 1.3


def generate(
    run: Run,
    prompts: str | Sequence[str],
    sampling: Sampling | None = None,
    *,
    when_outgrown: Callable[[], None] | None = None,
    force: bool = False,
) -> list[Continuation]:
    """Continue prompts with a run's model; an encoder-decoder writes a text from each of them.

    Args:
        run: the run.
        prompts: one prompt, or several.
        sampling: how to choose tokens.
        when_outgrown: called once, when a text first outgrows the model's context.
        force: write even if pellucid expects to need more memory than is free.

    Raises:
        ConfigError: a number in `sampling` is out of range.
        RunError: the memory is too small.
        PellucidError: the model is an encoder, which writes nothing.
    """
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    chosen_sampling, tokenizer = sampling or Sampling(), run.require_tokenizer()
    check_writing(run, texts, chosen_sampling, force=force)
    return generate_texts(run.model, tokenizer, texts, chosen_sampling, when_outgrown=when_outgrown)


def beam_search(
    run: Run,
    prompts: str | Sequence[str],
    beams: Beams | None = None,
    *,
    when_outgrown: Callable[[], None] | None = None,
    force: bool = False,
) -> list[list[BeamContinuation]]:
    """The best texts that a beam search finds for each prompt, best first.

    Args:
        run: the run.
        prompts: one prompt, or several.
        beams: how to search.
        when_outgrown: called once, when a text first outgrows the model's context.
        force: write even if pellucid expects to need more memory than is free.

    Raises:
        ConfigError: a number in `beams` is out of range.
        RunError: the memory is too small.
        PellucidError: the model is an encoder, which writes nothing.
    """
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    chosen_beams, tokenizer = beams or Beams(), run.require_tokenizer()
    check_writing(run, texts, chosen_beams, force=force)
    return search_texts(run.model, tokenizer, texts, chosen_beams, when_outgrown=when_outgrown)


def sample_sentence(model: Transformer, tokenizer: Tokenizer, sentence: str, step: int) -> Sampled:
    """The likeliest next tokens after `sentence`, and a greedy continuation without circles."""
    ids = tokenizer.encode_prompt(sentence)
    return sample_after(model, tokenizer, ids, sentence, step, penalty=_AGAINST_CIRCLES)


def sample_after(
    model: Transformer,
    tokenizer: Tokenizer,
    ids: Sequence[int],
    sentence: str,
    step: int,
    *,
    encoded: Encoded | None = None,
    decode: Callable[[Sequence[int]], str] | None = None,
    penalty: float = 1.0,
) -> Sampled:
    """The likeliest next tokens after `ids`, and their greedy continuation.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        ids: token ids of any length; the model reads as many of the last as its context holds.
        sentence: the text to show in place of `ids`.
        step: how many updates are done.
        encoded: the source that an encoder-decoder writes from.
        decode: makes text of the continuation; by default the tokenizer's own text.
        penalty: the penalty on repetitions, as in `Sampling`.
    """
    window = torch.tensor([list(ids)[-model.context_length :]], device=model.device)
    greedy = Sampling(
        max_new_tokens=_CONTINUATION_TOKENS, temperature=0.0, repetition_penalty=penalty
    )
    with torch.no_grad(), eagerly():  # no compiled code is worth its compiling for one text
        logits = model(window, encoded=encoded)[0, -1]
        shares, tokens = torch.softmax(logits.float(), dim=-1).topk(_SHOWN_TOKENS)
        (continuation,) = generate_after(model, tokenizer, [ids], greedy, encoded=encoded)
    return Sampled(
        step=step,
        sentence=sentence,
        next_tokens=tuple(
            (tokenizer.token(int(token)), float(share))
            for token, share in zip(tokens.cpu(), shares.cpu(), strict=True)
        ),
        continuation=continuation.text if decode is None else decode(continuation.ids),
    )
