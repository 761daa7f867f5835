"""Prompts are read by the matrices that texts are written with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pellucid.generation import ContinuousBatch, Reader
from pellucid.generation.decoding import decoder
from pellucid.generation.reading import LONG
from pellucid.model import Transformer, Weights, narrow
from support.models import BASE, build, random_ids

pytestmark = pytest.mark.usefixtures("native")

NARROW: tuple[Weights, ...] = ("bfloat16", "int8", "int4")


def ready(weights: Weights) -> Transformer:
    model = build(replace(BASE, context_length=2 * LONG), double=False).eval()
    narrow(model, weights)
    return model


def expected(model: Transformer, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(ids)[:, -1]


@pytest.mark.parametrize("weights", NARROW)
@pytest.mark.parametrize("length", [1, 2, LONG // 2, LONG + 5])
def test_a_prompt_gives_the_logits_of_the_model(weights: Weights, length: int) -> None:
    model = ready(weights)
    ids = random_ids(2, length)
    logits = Reader(model).next_logits(ids)
    # a long one is multiplied in bfloat16
    bound = 3e-2 if length > LONG else 1e-3
    own_logits = expected(model, ids)
    assert (logits - own_logits).abs().max() <= bound * own_logits.abs().max()


@pytest.mark.parametrize("weights", NARROW)
def test_texts_go_on_exactly_after_a_long_prompt(weights: Weights) -> None:
    model = ready(weights)
    ids = random_ids(1, LONG + 9)
    reader = Reader(model)
    reader.next_logits(ids[:, : LONG + 5])
    batch = ContinuousBatch(model, capacity=2)
    text, logits = batch.join(ids[0, : LONG + 5].tolist())
    for length in range(LONG + 6, ids.shape[1] + 1):
        logits = batch.step([text], ids[0, length - 1 : length].tolist())
        assert torch.equal(reader.next_logits(ids[:, :length]), logits)
    # the cache is in float32, whatever type the prompt was multiplied in
    assert reader.caches is not None
    assert all(cache.room is not None for cache in reader.caches)
    assert all(cache.room.keys.dtype == torch.float32 for cache in reader.caches if cache.room)


def test_float32_is_never_rounded() -> None:
    model, ids = ready("float32"), random_ids(2, LONG + 5)
    own_logits = expected(model, ids)
    assert (
        Reader(model).next_logits(ids) - own_logits
    ).abs().max() <= 1e-5 * own_logits.abs().max()


def test_tokens_read_together_are_those_read_one_by_one() -> None:
    model, ids = ready("int8"), random_ids(2, 7)
    compiled = decoder(model)
    assert compiled is not None
    caches_together, caches_alone = model.new_caches(), model.new_caches()
    for caches in (caches_together, caches_alone):
        compiled.make_rooms(caches, 2)
    assert compiled.read(ids[:, :-1], caches_together)
    for column in ids[:, :-1].T:
        compiled.logits(column, caches_alone)
    logits_together, logits_alone = (
        compiled.logits(ids[:, -1], caches) for caches in (caches_together, caches_alone)
    )
    assert logits_together is not None
    assert logits_alone is not None
    assert torch.equal(logits_together, logits_alone)
