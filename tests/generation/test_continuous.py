"""Texts that join and leave between tokens: each is written as if it were alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from pellucid.errors import PellucidError
from pellucid.generation import ContinuousBatch, Reader
from pellucid.model import Transformer
from support.models import PAIRS, VARIANTS, build, random_ids
from support.nightly import sampled

PROMPTS = [[1, 5, 3], [2, 2, 7, 1, 0, 4, 9], [8], [3, 1, 4, 1, 5], [6, 0]]
STEPS = 5


def alone(model: Transformer, prompt: Sequence[int], **state: Any) -> list[torch.Tensor]:
    reader, ids, logits = Reader(model, **state), list(prompt), []
    for _ in range(STEPS):
        logits.append(reader.next_logits(torch.tensor([ids]))[0])
        ids.append(int(logits[-1].argmax()))
    return logits


def together(
    model: Transformer, prompts: Sequence[Sequence[int]], encoded: Sequence[Any] | None = None
) -> list[list[torch.Tensor]]:
    """One text joins before each token, and the third place is used again by a later text."""
    batch = ContinuousBatch(model, capacity=3)
    logits: list[list[torch.Tensor]] = [[] for _ in prompts]
    opened: dict[int, Any] = {}
    waiting = list(range(len(prompts)))
    while waiting or opened:
        if waiting and batch.n_free:
            n = waiting.pop(0)
            opened[n], first = batch.join(prompts[n], encoded[n] if encoded else None)
            logits[n].append(first[0])
        numbers = [n for n in opened if len(logits[n]) < STEPS]
        tokens = [int(logits[n][-1].argmax()) for n in numbers]
        if numbers:
            rows = batch.step([opened[n] for n in numbers], tokens)
            for n, row in zip(numbers, rows, strict=True):
                logits[n].append(row)
        for n in [n for n in opened if len(logits[n]) == STEPS]:
            batch.remove(opened.pop(n))
    return logits


@pytest.mark.parametrize("name", sampled(sorted(VARIANTS)))
def test_each_text_is_the_same_bits_as_alone(name: str, native: None) -> None:
    model = build(VARIANTS[name], double=False).eval()
    for prompt, logits in zip(PROMPTS, together(model, PROMPTS), strict=True):
        for together_row, alone_row in zip(logits, alone(model, prompt), strict=True):
            assert torch.equal(together_row, alone_row)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_an_encoder_decoder_writes_from_its_own_source(name: str) -> None:
    model = build(PAIRS[name], double=False).eval()
    with torch.inference_mode():
        encoded = [model.encode(random_ids(1, n + 2)) for n in range(len(PROMPTS))]
    for prompt, source, logits in zip(
        PROMPTS, encoded, together(model, PROMPTS, encoded), strict=True
    ):
        expected = alone(model, prompt, encoded=source)
        assert all(map(torch.equal, logits, expected))


def test_a_full_batch_refuses_another_text_and_a_refused_one_takes_no_place() -> None:
    model = build(VARIANTS["learned"])
    batch = ContinuousBatch(model, capacity=1)
    with pytest.raises(PellucidError, match="context holds"):
        batch.join([1] * (model.context_length + 1))
    assert batch.n_free == 1
    text, _ = batch.join([1])
    with pytest.raises(PellucidError, match="already has 1 texts"):
        batch.join([1])
    batch.remove(text)
    assert batch.n_free == 1
