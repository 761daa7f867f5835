"""Targets that are tokens of the text which a model reads, and others."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.diagnosis.finding import limit
from pellucid.vitals.call.kinship import kinship, kinship_of_masked, measure_masked

ROWS, TIME, VOCAB, MASK, PAD = 32, 64, 500, 1, 0


def text(seed: int) -> Tensor:
    """Rows of tokens by Zipf's law, with padding at their ends."""
    draws = torch.Generator().manual_seed(seed)
    frequencies = 1 / torch.arange(1, VOCAB - 9, dtype=torch.float64)
    ids = torch.multinomial(frequencies, ROWS * TIME, True, generator=draws).view(ROWS, TIME)
    return (ids + 10).masked_fill(torch.arange(TIME) >= TIME - torch.arange(ROWS)[:, None], PAD)


def masked(ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    draws = torch.rand(ids.shape, generator=torch.Generator().manual_seed(2))
    is_masked = (draws < 0.15) & (ids != PAD)
    return ids.masked_fill(is_masked, MASK), targets.masked_fill(~is_masked, IGNORED)


@pytest.mark.parametrize("has_mask", [True, False])
def test_labels_by_lot_are_no_tokens_of_the_text(has_mask: bool) -> None:
    ids = text(3)
    by_lot = torch.randint(10, VOCAB, ids.shape, generator=torch.Generator().manual_seed(4))
    values, evenness = list[float](), list[float]()
    for targets in (ids, ids.roll(1, 0), by_lot):
        inputs, labels = masked(ids, targets)
        value = kinship_of_masked(inputs, labels, (ids != PAD).long() if has_mask else None)
        assert value is not None
        values.append(float(value[0]))
        evenness.append(float(value[1]) * VOCAB)
    own, of_other_rows, lots = values
    assert 0.8 < own < 1.25
    assert of_other_rows > 0.75
    assert lots < 0.6
    assert evenness[2] < 1.5
    assert min(evenness[:2]) > 4


def test_classes_and_unmasked_labels_have_no_kinship() -> None:
    ids = text(3)
    assert kinship_of_masked(ids, torch.zeros(ROWS), None) is None
    plain = kinship_of_masked(ids, ids.masked_fill(ids == PAD, IGNORED), None)
    assert plain is not None
    assert math.isnan(float(plain[0]))


def zipf_rows(seed: int) -> Tensor:
    """Texts that say half of their words again, out of a vocabulary without order."""
    draws = torch.Generator().manual_seed(seed)
    kinds = torch.randperm(2000, generator=draws)[:400]
    return kinds[torch.randint(400, (16, 40), generator=draws)]


def errors_of_masked(batches: list[tuple[Tensor, Tensor]]) -> float:
    numbers = [kinship_of_masked(ids, labels, None) for ids, labels in batches]
    return float(measure_masked([n for n in numbers if n is not None])["targets.moved"])


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_an_offset_of_masked_labels_shows_in_the_text_around_them(offset: int) -> None:
    rows = zipf_rows(7)
    is_masked = torch.rand(rows.shape, generator=torch.Generator().manual_seed(8)) < 0.15
    targets = torch.where(is_masked, rows + offset, IGNORED)
    errors = errors_of_masked([(rows.masked_fill(is_masked, 1), targets)])
    assert errors > limit("DAT030", "errors") if offset else errors < 0


def test_words_that_are_all_masked_show_no_offset() -> None:
    rows = zipf_rows(9)
    is_masked = torch.isin(rows, rows[:, :3].flatten())
    targets = torch.where(is_masked, rows, IGNORED)
    assert (
        errors_of_masked([(rows.masked_fill(is_masked, 1), targets)])
        < limit("DAT030", "errors") / 2
    )


@pytest.mark.parametrize("offset", [0, 1])
def test_a_page_of_small_batches_shows_what_one_of_them_does_not(offset: int) -> None:
    texts = [10 + zipf_rows(seed)[:3] for seed in range(8, 24)]
    batches = [masked(ids, ids + offset) for ids in texts]
    assert errors_of_masked(batches[:1]) < limit("DAT030", "errors")
    assert (errors_of_masked(batches) > limit("DAT030", "errors")) == bool(offset)


def test_words_in_the_order_of_their_frequency_that_are_all_masked_show_no_offset() -> None:
    batches = list[tuple[Tensor, Tensor]]()
    for seed in range(8, 40):
        ids = text(seed)
        is_masked = torch.isin(ids, ids[:, :2].flatten()) & (ids != PAD)
        batches.append((ids.masked_fill(is_masked, MASK), ids.masked_fill(~is_masked, IGNORED)))
    assert errors_of_masked(batches) < limit("DAT030", "errors") / 2


def test_two_texts_of_one_kind_are_kin_and_two_vocabularies_are_not() -> None:
    is_token = torch.ones(ROWS, TIME, dtype=torch.bool)
    assert float(kinship(text(3), text(4), is_token, is_token)) > 0.7
    assert float(kinship(text(3), text(4) + VOCAB, is_token, is_token)) == 0
