"""Guessing several tokens ahead, so that one pass over the weights can write more than one token.

The guesses are what came after the same few tokens earlier in the text. Compiled code computes the
logits after the last token and after each guess in one call, for little more than the time of one
token: the weights are read once. Each token is sampled from its logits with its own random number,
as without guesses. While it equals its guess, the next logits are the right ones already. So every
token and every log P is the same, bit for bit; only the time differs.

Source:
    Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding"; Saxena 2023,
    "Prompt Lookup Decoding" (guesses from the prompt).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

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
        sampling: how to sample, and how many tokens to guess.
        when_outgrown: called once, when the text first outgrows the context.

    Raises:
        NonFiniteError: logits are not finite.
    """
    reader, ids, repetitions = Reader(model), list(prompt), Repetitions()
    n_guessed = n_right = 0
    try:
        while True:
            guesses = repetitions.after(ids, sampling.guesses)
            logits = _logits(reader, ids, guesses)
            if when_outgrown is not None and reader.start > 0:
                when_outgrown()
                when_outgrown = None
            guesses = guesses[: len(logits) - 1]
            n_guessed += len(guesses)
            for row, guess in zip(logits, [*guesses, None], strict=True):
                uniform = torch.rand((), generator=random)[None]
                penalised = penalise_repetition(row[None], torch.tensor([ids]), sampling)
                sampled = choose(penalised, uniform, sampling)
                ids.append(int(sampled))
                yield Step([ids[-1]], row[None], sampled)
                if ids[-1] != guess:
                    break
                n_right += 1
                for cache in reader.caches or ():
                    cache.advance(1)
    finally:
        _log.info("of %d tokens that were guessed %d were right", n_guessed, n_right)


def _logits(
    reader: Reader, ids: list[int], guesses: list[int]
) -> Float[Tensor, "guesses_and_one vocab"]:
    """The logits after the text, and after each guess if compiled code is there for them."""
    rows = reader.logits_ahead(ids, guesses) if guesses else None
    if rows is None:
        return reader.next_logits(torch.tensor([ids]))
    return finite(rows, "the logits of the next token")
