"""Guessing several tokens ahead, so that one pass over the weights can write more than one token.

The guesses are what came after the same few tokens earlier in the text, or what a smaller model
would write. Compiled code computes the logits after the last token and after each guess in one
call, for little more than the time of one token: the weights are read once. Each token is sampled
from its logits with its own random number, as without guesses. While it equals its guess, the next
logits are the right ones already. So every token and every log P is the same, bit for bit; only the
time differs.

The smaller model samples with the random numbers that the tokens will be sampled with. So it is
right where both distributions put the number on the same token, at temperatures above 0 too.

Source:
    Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding"; Saxena 2023,
    "Prompt Lookup Decoding" (guesses from the prompt).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.errors import ConfigError
from pellucid.generation.finite import finite
from pellucid.generation.incremental import Reader
from pellucid.generation.ragged import Step
from pellucid.generation.sampling import Sampling, choose, penalise_repetition
from pellucid.model import Transformer

_log = logging.getLogger(__name__)
#: The longest and the shortest ends of a text that are looked up in it.
_LONGEST, _SHORTEST = 4, 2


class Repetitions:
    """What came after each few tokens of a text, the last time that they came."""

    def __init__(self) -> None:
        self._next: dict[tuple[int, ...], int] = {}
        self._n_indexed = 0

    def after(self, ids: Sequence[int], limit: int) -> list[int]:
        """At most so many tokens that may come next; none if the end of the text is new to it."""
        for end in range(self._n_indexed + 1, len(ids)):
            for n in range(_SHORTEST, min(_LONGEST, end) + 1):
                self._next[tuple(ids[end - n : end])] = end
        self._n_indexed = max(self._n_indexed, len(ids) - 1)
        for n in range(min(_LONGEST, len(ids)), _SHORTEST - 1, -1):
            place = self._next.get(tuple(ids[-n:]))
            if place is not None:
                return list(ids[place : place + limit])
        return []


class Uniforms:
    """The random numbers of a text, one a token; those of coming tokens can be seen before."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator
        self._coming: deque[Tensor] = deque()

    def ahead(self, n: int) -> Float[Tensor, " one"]:
        """The number of the token after n others."""
        while len(self._coming) <= n:
            self._coming.append(torch.rand((), generator=self._generator))
        return self._coming[n][None]

    def next(self) -> Float[Tensor, " one"]:
        """The number of the next token, which is used up."""
        number = self.ahead(0)
        self._coming.popleft()
        return number


class Draft:
    """What a smaller model would write with the same random numbers.

    Args:
        model: it has the token ids of the model that it guesses for.
        sampling: how to sample.
        uniforms: the random numbers of the text.
    """

    def __init__(self, model: Transformer, sampling: Sampling, uniforms: Uniforms) -> None:
        self._reader, self._sampling, self._uniforms = Reader(model), sampling, uniforms
        #: what its caches hold, and how much of that is surely the text's beginning
        self._read: list[int] = []
        self._n_certain = 0

    def after(self, ids: Sequence[int], limit: int) -> list[int]:
        """At most so many tokens that may come next; none beyond its context."""
        limit = min(limit, self._reader.model.context_length - len(ids) + 1)
        self._forget_wrong_guesses(ids)
        text = list(ids)
        for n in range(limit):
            row = torch.tensor([text])
            logits = self._reader.next_logits(row)
            self._read = list(text)
            penalised = penalise_repetition(logits, row, self._sampling)
            text.append(int(choose(penalised, self._uniforms.ahead(n), self._sampling)))
        return text[len(ids) :]

    def _forget_wrong_guesses(self, ids: Sequence[int]) -> None:
        n = self._n_certain
        while n < min(len(self._read), len(ids) - 1) and self._read[n] == ids[n]:
            n += 1
        for cache in self._reader.caches or ():
            if cache.state() is not None:  # a state cannot go back
                self._reader.caches = None
                break
            cache.advance(n - len(self._read))
        self._read, self._n_certain = self._read[:n], n


@torch.inference_mode()
def sample_ahead(
    model: Transformer,
    prompt: Sequence[int],
    random: torch.Generator,
    sampling: Sampling,
    when_outgrown: Callable[[], None] | None,
) -> Iterator[Step]:
    """What one text samples, step by step.

    Args:
        model: the model.
        prompt: its token ids.
        random: the random generator of the row.
        sampling: how to sample, how many tokens to guess, and which model guesses.
        when_outgrown: called once, when the text first outgrows the context.

    Raises:
        ConfigError: the model that guesses has other token ids.
        NonFiniteError: logits are not finite.
    """
    reader, ids, uniforms = Reader(model), list(prompt), Uniforms(random)
    guesser: Repetitions | Draft = Repetitions()
    if sampling.draft is not None:
        _check_ids(sampling.draft, model)
        guesser = Draft(sampling.draft, sampling, uniforms)
    n_guessed = n_right = 0
    try:
        while True:
            guesses = guesser.after(ids, sampling.guesses) if reader.looks_ahead else []
            logits = _logits(reader, ids, guesses)
            if when_outgrown is not None and reader.start > 0:
                when_outgrown()
                when_outgrown = None
            guesses = guesses[: len(logits) - 1]
            n_guessed += len(guesses)
            for row, guess in zip(logits, [*guesses, None], strict=True):
                penalised = penalise_repetition(row[None], torch.tensor([ids]), sampling)
                sampled = choose(penalised, uniforms.next(), sampling)
                ids.append(int(sampled))
                yield Step([ids[-1]], row[None], sampled)
                if ids[-1] != guess:
                    break
                n_right += 1
                for cache in reader.caches or ():
                    cache.advance(1)
    finally:
        _log.info("of %d tokens that were guessed %d were right", n_guessed, n_right)


def _check_ids(draft: Transformer, model: Transformer) -> None:
    n_draft, n = draft.token_embedding.num_embeddings, model.token_embedding.num_embeddings
    if n_draft != n:
        raise ConfigError(
            f"the model that guesses has {n_draft:,} token ids, and the one that writes has {n:,}: "
            "use one with the same tokenizer"
        )


def _logits(
    reader: Reader, ids: list[int], guesses: list[int]
) -> Float[Tensor, "guesses_and_one vocab"]:
    """The logits after the text, and after each guess if compiled code is there for them."""
    rows = reader.logits_ahead(ids, guesses) if guesses else None
    if rows is None:
        return reader.next_logits(torch.tensor([ids]))
    return finite(rows, "the logits of the next token")
