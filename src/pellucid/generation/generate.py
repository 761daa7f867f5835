"""Generate text token by token, for one prompt or a batch of them.

An encoder-decoder reads the prompts once with its encoder, and generates new texts.

All prompts of a batch start at position 0. Compiled code writes after prompts of any lengths, each
read at once (`pellucid.generation.ragged`). Otherwise one pass reads the length that all of them
have. Then rows with longer prompts continue with their own tokens, while the others already
generate; their tokens wait, so that you get the first of every row together. So no row is padded,
no row changes another, and no mask is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from pellucid.errors import PellucidError
from pellucid.generation.continuous import ContinuousBatch
from pellucid.generation.guessing import sample_ahead
from pellucid.generation.incremental import Reader
from pellucid.generation.prompts import start
from pellucid.generation.ragged import RaggedReader, Step, aligned, sample_ragged
from pellucid.generation.row_text import RowText
from pellucid.generation.sampling import (
    Sampling,
    choose,
    log_p_of,
    penalise_repetition,
    row_generator,
)
from pellucid.model import Encoded, Transformer
from pellucid.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A generated token and its log P in nats.

    log P is before the repetition penalty, the temperature and the filters, so it equals the log P
    of scoring the text.

    Attributes:
        token_id: the id of the token.
        log_p: in nats.
    """

    token_id: int
    log_p: float


@dataclass(frozen=True, slots=True)
class Continuation:
    """The continuation of a prompt, and the reason why it `stopped`: "end", "stop" or "length".

    `log_p` has one number for each of `ids` (see `SampledToken`). Comparisons ignore it, because
    its rounding depends on the other prompts of the batch.

    Attributes:
        text: the continuation, without the prompt.
    """

    text: str
    ids: tuple[int, ...]
    stopped: str
    log_p: tuple[float, ...] = field(compare=False)


def continue_tokens(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    encoded: Encoded | None = None,
    cache: bool = True,
    when_outgrown: Callable[[], None] | None = None,
) -> Iterator[list[SampledToken]]:
    """Generate the next token of each prompt, without end.

    Row r has its own random generator, seeded by (seed, r).

    Args:
        model: the model.
        prompts: token ids of each prompt.
        sampling: how to sample.
        encoded: the encoder's states of each row's source.
        cache: whether to keep keys and values of earlier tokens.
        when_outgrown: called once, when a text first outgrows the context. From then on the model
            sees only the latest tokens.

    Raises:
        PellucidError: a prompt is empty.
    """
    steps = _sample(model, prompts, sampling, encoded, cache, when_outgrown)
    yield from aligned(map(_with_log_p, steps))


def _with_log_p(step: Step) -> list[SampledToken | None]:
    log_p = log_p_of(step.logits, step.sampled).cpu()
    return [
        None if token is None else SampledToken(token, float(nats))
        for token, nats in zip(step.tokens, log_p, strict=True)
    ]


def continue_ids(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    encoded: Encoded | None = None,
    cache: bool = True,
    when_outgrown: Callable[[], None] | None = None,
) -> Iterator[list[int]]:
    """The ids of `continue_tokens`, without log P.

    Args:
        model, prompts, sampling, encoded, cache, when_outgrown: as in `continue_tokens`.
    """
    steps = _sample(model, prompts, sampling, encoded, cache, when_outgrown)
    yield from aligned(step.tokens for step in steps)


def _sample(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    encoded: Encoded | None,
    cache: bool,
    when_outgrown: Callable[[], None] | None,
) -> Iterator[Step]:
    """What each row samples, step by step."""
    if not prompts or not all(prompts):
        raise PellucidError("a prompt has no tokens: pass at least the begin-of-text token")
    random = [row_generator(sampling.seed, row) for row in range(len(prompts))]
    if cache and encoded is None and len(set(map(len, prompts))) > 1:
        batch = ContinuousBatch(model, capacity=len(prompts))
        if batch.is_compiled:
            reader = RaggedReader(batch, model)
            return sample_ragged(reader, prompts, random, sampling, when_outgrown)
    if cache and encoded is None and sampling.guesses and len(prompts) == 1:
        return sample_ahead(model, prompts[0], random[0], sampling, when_outgrown)
    return _sample_in_step(model, prompts, random, sampling, encoded, cache, when_outgrown)


def _sample_in_step(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    random: Sequence[torch.Generator],
    sampling: Sampling,
    encoded: Encoded | None,
    cache: bool,
    when_outgrown: Callable[[], None] | None,
) -> Iterator[Step]:
    """All rows have read as many tokens."""
    device = model.device
    lengths = [len(prompt) for prompt in prompts]
    n_read = min(lengths)
    ids = torch.tensor([list(prompt[:n_read]) for prompt in prompts], device=device)
    reader = Reader(model, cached=cache, encoded=encoded)
    while True:
        logits = reader.next_logits(ids, waits=False)
        if when_outgrown is not None and reader.start > 0:
            when_outgrown()
            when_outgrown = None
        n_read = ids.shape[1]
        reading = [n_read < length for length in lengths]
        # a row draws only when it generates: its numbers do not depend on other rows' lengths
        uniforms = torch.tensor(
            [
                0.0 if reads else float(torch.rand((), generator=generator))
                for reads, generator in zip(reading, random, strict=True)
            ]
        )
        sampled = choose(penalise_repetition(logits, ids, sampling), uniforms.to(device), sampling)
        tokens = reader.read(sampled, logits)
        next_ids = [
            prompt[n_read] if reads else token
            for reads, prompt, token in zip(reading, prompts, tokens, strict=True)
        ]
        ids = torch.cat((ids, torch.tensor(next_ids, device=device)[:, None]), dim=1)
        generated = [None if reads else i for reads, i in zip(reading, next_ids, strict=True)]
        yield Step(generated, logits, sampled)


def stream(
    model: Transformer,
    tokenizer: Tokenizer,
    prompt: str,
    sampling: Sampling,
    *,
    when_outgrown: Callable[[], None] | None = None,
) -> Iterator[str]:
    """Generate the continuation of one prompt, in whole characters.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        prompt: the text to continue; an encoder-decoder reads it and generates a new text.
        sampling: how to sample.
        when_outgrown: called once, when the text first outgrows the context.

    Raises:
        TextError: the prompt is not text.
        PellucidError: the model cannot generate text. Both are raised by the call itself.
    """
    (ids,), encoded = start(model, tokenizer, [prompt])
    tokens = continue_ids(model, [ids], sampling, encoded=encoded, when_outgrown=when_outgrown)
    return _pieces(tokens, RowText(tokenizer, ids, sampling))


def _pieces(tokens: Iterator[list[int]], row: RowText) -> Iterator[str]:
    for (token,) in tokens:
        if piece := row.take(token):
            yield piece
        if row.stopped:
            break


def generate(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    sampling: Sampling,
    *,
    when_outgrown: Callable[[], None] | None = None,
) -> list[Continuation]:
    """The continuations of a batch of prompts, in whole characters.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        prompts: texts to continue; an encoder-decoder reads them and generates new texts.
        sampling: how to sample.
        when_outgrown: called once, when a text first outgrows the context.

    Raises:
        TextError: a prompt is not text.
        PellucidError: the model cannot generate text.
    """
    ids, encoded = start(model, tokenizer, prompts)
    return generate_after(
        model, tokenizer, ids, sampling, encoded=encoded, when_outgrown=when_outgrown
    )


def generate_after(
    model: Transformer,
    tokenizer: Tokenizer,
    ids: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    encoded: Encoded | None = None,
    ends: Collection[int] | None = None,
    when_outgrown: Callable[[], None] | None = None,
) -> list[Continuation]:
    """The continuations of rows of token ids.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        ids: the rows.
        sampling: how to sample.
        ends: the tokens that end a text; by default the tokenizer's end token.
        encoded, when_outgrown: as in `continue_tokens`.
    """
    rows = [RowText(tokenizer, row, sampling, ends) for row in ids]
    log_p: list[list[float]] = [[] for _ in rows]
    if not rows:
        return []
    for tokens in continue_tokens(
        model, ids, sampling, encoded=encoded, when_outgrown=when_outgrown
    ):
        for row, nats, token in zip(rows, log_p, tokens, strict=True):
            if row.stopped is None:
                row.take(token.token_id)
                nats.append(token.log_p)
        if all(row.stopped for row in rows):
            break
    return [
        # without the log P of the token that ended the text
        Continuation(row.text, tuple(row.ids), row.stopped or "", tuple(nats[: len(row.ids)]))
        for row, nats in zip(rows, log_p, strict=True)
    ]
