"""Rows that say one short piece of text again and again, told from text and from padding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pellucid.vitals.taps.first_batch import repetitive

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
