"""Text that goes on: token by token, for one prompt or a batch of them.

An encoder-decoder reads the prompts with its encoder, once, and writes from nothing.

Prompts of a batch all start at position 0. The common length is read in one pass; then rows whose
prompt is longer are fed their own tokens while the others already write. So no row is padded, no
row changes another, and no mask is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.generation.incremental import Reader
from pellucid.generation.prompts import start
from pellucid.generation.sampling import Sampling, choose, log_p_of
from pellucid.maths.sampling import repetition_penalty
from pellucid.model import Encoded, Transformer
from pellucid.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class Chosen:
    """A token that was written, and log P that the model itself gave it, in nats.

    The model's own: before the repetition penalty, the temperature and the filters. So it is what
    scoring the text gives, whatever the token was drawn from.
    """

    token_id: int
    log_p: float


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a prompt went on with, and why it stopped: "end", "stop" or "length".

    `log_p` has one number for each of `ids` (see `Chosen`). It does not count when continuations
    are compared: beside other prompts its last digits are rounded differently.
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
) -> Iterator[list[Chosen | None]]:
    """The next token of each prompt, again and again; None while a row still reads its prompt.

    `encoded` is what an encoder made of each row's source. Row r draws from a generator of its own,
    seeded by (seed, r). `when_outgrown` is called once, when a text first outgrew the context: from
    there on the model sees its latest tokens alone.

    Raises:
        PellucidError: a prompt is empty.
    """
    for ids, logits, drawn in _written(model, prompts, sampling, encoded, cache, when_outgrown):
        log_p = log_p_of(logits, drawn).cpu()
        yield [
            None if token is None else Chosen(token, float(nats))
            for token, nats in zip(ids, log_p, strict=True)
        ]


def continue_ids(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    encoded: Encoded | None = None,
    cache: bool = True,
    when_outgrown: Callable[[], None] | None = None,
) -> Iterator[list[int | None]]:
    """The ids of `continue_tokens`, without asking how probable each was."""
    for ids, _, _ in _written(model, prompts, sampling, encoded, cache, when_outgrown):
        yield ids


def _written(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    encoded: Encoded | None,
    cache: bool,
    when_outgrown: Callable[[], None] | None,
) -> Iterator[tuple[list[int | None], Tensor, Tensor]]:
    """What each row writes next, the logits it was drawn from, and what was drawn."""
    if not prompts or not all(prompts):
        raise PellucidError("a prompt has no tokens: pass at least the begin-of-text token")
    device = model.device
    random = [_generator(sampling.seed, row) for row in range(len(prompts))]
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
        # a row draws only when it writes: its numbers do not depend on its neighbours' lengths
        uniforms = torch.tensor(
            [
                0.0 if reads else float(torch.rand((), generator=generator))
                for reads, generator in zip(reading, random, strict=True)
            ]
        )
        drawn = choose(_penalised(logits, ids, sampling), uniforms.to(device), sampling)
        tokens = reader.read(drawn, logits)
        chosen = [
            prompt[n_read] if reads else token
            for reads, prompt, token in zip(reading, prompts, tokens, strict=True)
        ]
        ids = torch.cat((ids, torch.tensor(chosen, device=device)[:, None]), dim=1)
        written = [None if reads else token for reads, token in zip(reading, chosen, strict=True)]
        yield written, logits, drawn


def _penalised(logits: Tensor, ids: Tensor, sampling: Sampling) -> Tensor:
    if sampling.repetition_penalty == 1:
        return logits
    present = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, ids, value=True)
    return repetition_penalty(logits, present, sampling.repetition_penalty)


def stream(
    model: Transformer,
    tokenizer: Tokenizer,
    prompt: str,
    sampling: Sampling,
    *,
    when_outgrown: Callable[[], None] | None = None,
) -> Iterator[str]:
    """The continuation of one prompt, in whole characters, as they become known.

    An encoder-decoder looks at the prompt and writes anew. `when_outgrown` as in `continue_tokens`.

    Raises:
        TextError: the prompt is not text.
        PellucidError: the model writes nothing. Both at once, before a piece is asked for.
    """
    (ids,), encoded = start(model, tokenizer, [prompt])
    written = continue_ids(model, [ids], sampling, encoded=encoded, when_outgrown=when_outgrown)
    return _pieces(written, tokenizer, writer(tokenizer, ids), sampling)


def _pieces(
    written: Iterator[list[int | None]],
    tokenizer: Tokenizer,
    emit: Callable[[int], str],
    sampling: Sampling,
) -> Iterator[str]:
    held = ""
    longest = max((len(text) for text in sampling.stop), default=1)
    for count, (token,) in enumerate(written, start=1):
        if token is None or token == tokenizer.end_id:
            break
        held += emit(token)
        at = first_stop(held, sampling.stop)
        if at is not None:
            yield held[:at]
            return
        # what could still be the beginning of a stop text is held back
        safe = len(held) - longest + 1
        if safe > 0:
            yield held[:safe]
            held = held[safe:]
        if count == sampling.max_new_tokens:
            break
    if held:
        yield held


def generate(
    model: Transformer,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    sampling: Sampling,
    *,
    when_outgrown: Callable[[], None] | None = None,
) -> list[Continuation]:
    """The continuations of a batch of prompts, in whole characters.

    An encoder-decoder looks at the prompts and writes anew. `when_outgrown` as in
    `continue_tokens`.

    Raises:
        TextError: a prompt is not text.
        PellucidError: the model is an encoder.
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
    when_outgrown: Callable[[], None] | None = None,
) -> list[Continuation]:
    """The continuations of rows of ids; `encoded` and `when_outgrown` as in `continue_tokens`."""
    rows = [_Row(writer(tokenizer, row), tokenizer.end_id, sampling) for row in ids]
    if not rows:
        return []
    for tokens in continue_tokens(
        model, ids, sampling, encoded=encoded, when_outgrown=when_outgrown
    ):
        for row, chosen in zip(rows, tokens, strict=True):
            if chosen is not None and row.stopped is None:
                row.take(chosen)
        if all(row.stopped for row in rows):
            break
    return [
        Continuation(row.text, tuple(row.ids), row.stopped or "", tuple(row.log_p)) for row in rows
    ]


class _Row:
    """What one prompt of a batch went on with so far; `stopped` once it is done."""

    def __init__(self, emit: Callable[[int], str], end_id: int, sampling: Sampling) -> None:
        self.text = ""
        self.ids: list[int] = []
        self.log_p: list[float] = []
        self.stopped: str | None = None
        self._emit = emit
        self._end_id = end_id
        self._sampling = sampling

    def take(self, chosen: Chosen) -> None:
        if chosen.token_id == self._end_id:
            self.stopped = "end"
            return
        self.ids.append(chosen.token_id)
        self.log_p.append(chosen.log_p)
        self.text += self._emit(chosen.token_id)
        at = first_stop(self.text, self._sampling.stop)
        if at is not None:
            self.text, self.stopped = self.text[:at], "stop"
        elif len(self.ids) == self._sampling.max_new_tokens:
            self.stopped = "length"


def writer(tokenizer: Tokenizer, ids: Sequence[int]) -> Callable[[int], str]:
    """From each id that follows `ids` to the text that became whole with it."""
    emit = tokenizer.stream()
    for token_id in ids:
        emit(token_id)
    return emit


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the first of the stop texts begins, or None."""
    places = [text.find(stop) for stop in stops]
    return min((place for place in places if place >= 0), default=None)


def _generator(seed: int, row: int) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}:{row}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
