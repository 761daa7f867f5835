"""Text that goes on: token by token, for one prompt or a batch of them.

Comes in: a model, a tokenizer, prompts. Goes out: ids, texts, whole characters as they become
known. It does not know how the model was trained.

Prompts of a batch all start at position 0. The common length is read in one pass; then rows whose
prompt is longer are fed their own tokens while the others already write. So no row is padded, no
row changes another, and no mask is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.generation.sampling import Sampling, choose
from pellucid.model import KeyValueCache, Transformer
from pellucid.text import Tokenizer


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a prompt went on with, and why it stopped: "end", "stop" or "length"."""

    text: str
    ids: tuple[int, ...]
    stopped: str


def window_start(length: int, context_length: int) -> int:
    """Where the model's view of a text of `length` tokens starts.

    It moves by half a context at a time, so that a cache is rebuilt rarely; it depends on the
    length alone, so that with and without a cache the same tokens are seen.
    """
    if length <= context_length:
        return 0
    half = max(1, context_length // 2)
    return -(-(length - context_length) // half) * half


def continue_ids(
    model: Transformer,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    cache: bool = True,
) -> Iterator[list[int | None]]:
    """The next token of each prompt, again and again; None while a row still reads its prompt.

    Row r draws from a generator of its own, seeded by (seed, r).

    Raises:
        PellucidError: a prompt is empty.
    """
    if not prompts or not all(prompts):
        raise PellucidError("a prompt has no tokens: pass at least the begin-of-text token")
    device = model.head_weight.device
    random = [_generator(sampling.seed, row) for row in range(len(prompts))]
    lengths = [len(prompt) for prompt in prompts]
    known = min(lengths)
    ids = torch.tensor([list(prompt[:known]) for prompt in prompts], device=device)
    reader = _Reader(model, cached=cache)
    while True:
        logits = reader.next_logits(ids)
        known = ids.shape[1]
        reading = [known < length for length in lengths]
        # a row draws only when it writes: its numbers do not depend on its neighbours' lengths
        uniforms = torch.stack(
            [
                torch.zeros(()) if reads else torch.rand((), generator=generator)
                for reads, generator in zip(reading, random, strict=True)
            ]
        )
        drawn = choose(logits, uniforms.to(device), sampling)
        chosen = [
            prompt[known] if reads else int(token)
            for reads, prompt, token in zip(reading, prompts, drawn.cpu(), strict=True)
        ]
        ids = torch.cat((ids, torch.tensor(chosen, device=device)[:, None]), dim=1)
        yield [None if reads else token for token, reads in zip(chosen, reading, strict=True)]


class _Reader:
    """The logits after a growing text, from what is new in it or from all of it."""

    def __init__(self, model: Transformer, *, cached: bool) -> None:
        self.model = model
        self.cached = cached
        self.caches: list[KeyValueCache] | None = None
        self.start = 0

    @torch.inference_mode()
    def next_logits(self, ids: Tensor) -> Tensor:
        self.model.eval()
        length = ids.shape[1]
        start = window_start(length, self.model.context_length)
        if not self.cached:
            return self.model(ids[:, start:])[:, -1].float()
        if self.caches is None or start != self.start:
            self.caches, self.start = self.model.new_caches(), start
        unseen = start + self.caches[0].length
        hidden = self.model.hidden_states(ids[:, unseen:], self.caches)[:, -1]
        return (hidden @ self.model.head_weight.t()).float()


def stream(
    model: Transformer, tokenizer: Tokenizer, prompt: str, sampling: Sampling
) -> Iterator[str]:
    """The continuation of one prompt, in whole characters, as they become known."""
    emit = tokenizer.stream()
    ids = [tokenizer.begin_id, *tokenizer.encode(prompt)]
    for token_id in ids:
        emit(token_id)
    held = ""
    longest = max((len(text) for text in sampling.stop), default=1)
    for count, (token_id,) in enumerate(continue_ids(model, [ids], sampling), start=1):
        if token_id is None or token_id == tokenizer.end_id:
            break
        held += emit(token_id)
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
    model: Transformer, tokenizer: Tokenizer, prompts: Sequence[str], sampling: Sampling
) -> list[Continuation]:
    """The continuations of a batch of prompts."""
    ids = [[tokenizer.begin_id, *tokenizer.encode(prompt)] for prompt in prompts]
    written: list[list[int]] = [[] for _ in prompts]
    done: dict[int, Continuation] = {}
    for tokens in continue_ids(model, ids, sampling):
        for row, token_id in enumerate(tokens):
            if row in done or token_id is None:
                continue
            if token_id != tokenizer.end_id:
                written[row].append(token_id)
            finished = _finished(tokenizer, written[row], token_id, sampling)
            if finished is not None:
                done[row] = finished
        if len(done) == len(prompts):
            break
    return [done[row] for row in range(len(prompts))]


def _finished(
    tokenizer: Tokenizer, ids: list[int], last: int, sampling: Sampling
) -> Continuation | None:
    if last == tokenizer.end_id:
        return Continuation(tokenizer.decode(ids), tuple(ids), "end")
    if sampling.stop:
        text = tokenizer.decode(ids)
        at = first_stop(text, sampling.stop)
        if at is not None:
            return Continuation(text[:at], tuple(ids), "stop")
    if len(ids) == sampling.max_new_tokens:
        return Continuation(tokenizer.decode(ids), tuple(ids), "length")
    return None


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the first of the stop texts begins, or None."""
    places = [text.find(stop) for stop in stops]
    return min((place for place in places if place >= 0), default=None)


def _generator(seed: int, row: int) -> torch.Generator:
    digest = hashlib.sha256(f"{seed}:{row}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
