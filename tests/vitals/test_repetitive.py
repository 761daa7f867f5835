"""Rows that say one short piece of text again and again, told from text and from padding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.row_content import one_token, repetitive, without_masks

TIME = 64


def text(rows: int = 8) -> Tensor:
    """Rows of tokens drawn by frequency, as those of a text are."""
    draws = torch.Generator().manual_seed(3)
    frequencies = 1 / torch.arange(2, 60, dtype=torch.float64)
    return torch.multinomial(frequencies, rows * TIME, True, generator=draws).view(rows, TIME)


def again(piece: list[int]) -> Tensor:
    return torch.tensor(piece).repeat(TIME)[:TIME]


@pytest.mark.parametrize("piece", [[5, 9], [5, 9, 3], [5, 5, 9, 3], list(range(8))])
def test_a_short_piece_said_again_and_again_is_counted_by_rows(piece: list[int]) -> None:
    ids = text()
    ids[:2] = again(piece)
    assert float(repetitive(ids)) == 0.25


def test_text_is_not_repetitive_and_neither_is_padding() -> None:
    ids = text()
    assert float(repetitive(ids)) == 0
    ids[:, 8:] = 0
    assert float(repetitive(ids)) == 0


def test_half_a_row_does_not_count() -> None:
    ids = text()
    ids[0, : TIME // 3] = again([5, 9, 3])[: TIME // 3]
    assert float(repetitive(ids)) == 0


def test_masks_do_not_hide_that_a_row_is_one_token() -> None:
    mask, unknown = 3, 4
    is_masked = torch.rand(8, TIME, generator=torch.Generator().manual_seed(1)) < 0.3
    rows = torch.full((8, TIME), unknown)
    ids, labels = rows.masked_fill(is_masked, mask), rows.masked_fill(~is_masked, IGNORED)
    assert float(one_token(ids)) < 0.5
    assert float(one_token(without_masks(ids, labels))) == 1
    words = text() + 5
    masked, labels = words.masked_fill(is_masked, mask), words.masked_fill(~is_masked, IGNORED)
    assert torch.equal(without_masks(masked, labels), words)


def test_bits_with_a_label_for_some_places_stay_as_they_are() -> None:
    bits = torch.randint(2, 4, (8, TIME), generator=torch.Generator().manual_seed(1))
    labels = bits.masked_fill(torch.arange(TIME) < TIME // 2, IGNORED)
    assert torch.equal(without_masks(bits, labels), bits)
    assert torch.equal(without_masks(bits, torch.zeros(8)), bits)
