"""Prompts of different lengths, each read at once, and then written together.

Compiled code takes the next token of every text in one call, whatever their lengths. Each text has
a window of its own, and its numbers do not depend on the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.generation.continuous import ContinuousBatch, OpenText
from pellucid.generation.finite import finite
from pellucid.generation.incremental import window_start
from pellucid.generation.sampling import Sampling, choose, penalise_repetition
from pellucid.model import Transformer
from pellucid.typed import to_list

_T = TypeVar("_T")


class RaggedReader:
    """The logits after growing texts of different lengths.

    Args:
        batch: an empty batch with a place for each text.
        model: its model.
    """

    def __init__(self, batch: ContinuousBatch, model: Transformer) -> None:
        self._batch, self._context = batch, model.context_length
        self._texts: dict[int, tuple[OpenText, int]] = {}

    @property
    def start(self) -> int:
        """The latest first token that the model sees of a text."""
        return max((start for _, start in self._texts.values()), default=0)

    def next_logits(self, rows: Sequence[Sequence[int]]) -> Float[Tensor, "rows vocab"]:
        """The logits of the next token of each text.

        Raises:
            NonFiniteError: they are not finite.
        """
        logits_of: dict[int, Tensor] = {}
        growing: list[int] = []
        for number, row in enumerate(rows):
            start = window_start(len(row), self._context)
            text, old_start = self._texts.get(number, (None, -1))
            if text is not None and start == old_start:
                growing.append(number)
                continue
            if text is not None:
                self._batch.remove(text)
            text, logits = self._batch.join(row[start:])
            self._texts[number], logits_of[number] = (text, start), logits[0]
        if growing:
            texts = [self._texts[number][0] for number in growing]
            logits = self._batch.step(texts, [rows[number][-1] for number in growing])
            logits_of |= dict(zip(growing, logits, strict=True))
        stacked = torch.stack([logits_of[number] for number in range(len(rows))])
        return finite(stacked, "the logits of the next token")


class Step(NamedTuple):
    """The next token of each row, None while it reads its prompt; what it was sampled from."""

    tokens: list[int | None]
    logits: Tensor
    sampled: Tensor


@torch.inference_mode()
def sample_ragged(
    reader: RaggedReader,
    prompts: Sequence[Sequence[int]],
    random: Sequence[torch.Generator],
    sampling: Sampling,
    when_outgrown: Callable[[], None] | None,
) -> Iterator[Step]:
    """What each row samples, at every step.

    Args:
        reader: reads the texts.
        prompts: token ids of each prompt.
        random: the random generator of each row.
        sampling: how to sample.
        when_outgrown: called once, when a text first outgrows the context.

    Raises:
        NonFiniteError: logits are not finite.
    """
    rows = [list(prompt) for prompt in prompts]
    while True:
        logits = reader.next_logits(rows)
        if when_outgrown is not None and reader.start > 0:
            when_outgrown()
            when_outgrown = None
        uniforms = torch.stack([torch.rand((), generator=generator) for generator in random])
        penalised = penalise_repetition(logits, _padded(rows), sampling)
        sampled = choose(penalised, uniforms, sampling)
        tokens: list[int | None] = to_list(sampled)
        for row, token in zip(rows, to_list(sampled), strict=True):
            row.append(token)
        yield Step(tokens, logits, sampled)


def _padded(rows: Sequence[Sequence[int]]) -> Int[Tensor, "rows time"]:
    """The texts as one tensor, the shorter ones with their own first token behind them."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[row[0]] * (longest - len(row))] for row in rows])


def aligned(steps: Iterator[list[_T | None]]) -> Iterator[list[_T]]:
    """The first token of every row, then the second: rows that began early wait for the others."""
    waiting: list[deque[_T]] = []
    for step in steps:
        waiting = waiting or [deque() for _ in step]
        for row, token in zip(waiting, step, strict=True):
            if token is not None:
                row.append(token)
        if all(waiting):
            yield [row.popleft() for row in waiting]
