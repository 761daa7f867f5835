"""Rows that end in one token again and again are no padded ones."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pellucid.vitals.ledger.stuck_rows import StuckRows

PAD, TOKEN = 0, 7


def texts(seed: int, time: int = 40) -> Tensor:
    ids = torch.randint(1, 50, (8, time), generator=torch.Generator().manual_seed(seed))
    ids[:, 5] = TOKEN  # a token of the text
    ids[:, 6] = 8
    return ids


def share(*batches: tuple[Tensor, Tensor | None]) -> float:
    """The share of four rounds of these batches."""
    rows = StuckRows()
    for batch in batches * 4:
        rows.add(batch)
    return float(rows.take_signs()["batch.stuck"])


def filled(seed: int, token: int) -> Tensor:
    ids = texts(seed)
    ids[:, 28:] = token
    return ids


def test_text_is_not_stuck() -> None:
    assert share((texts(0), None), (texts(1), None)) == 0


def test_answers_that_say_one_token_are_stuck_also_if_the_token_is_only_in_earlier_texts() -> None:
    late = torch.randint(20, 50, (8, 40), generator=torch.Generator().manual_seed(2))
    late[:, 28:] = TOKEN
    assert share((texts(0), None), (late, None)) == pytest.approx(0.5)


def test_padding_at_the_end_is_not_stuck_with_or_without_a_mask() -> None:
    padded = filled(1, PAD)
    assert share((texts(0), None), (padded, None)) == 0
    assert share((padded, padded != PAD)) == 0


def test_padding_at_both_ends_is_not_stuck() -> None:
    padded = filled(1, PAD)
    padded[:, :4] = PAD
    assert share((padded, None)) == 0


def test_an_end_and_padding_behind_the_token_hide_nothing() -> None:
    ids = filled(1, TOKEN)
    ids[:, 37] = 49
    ids[:, 38:] = PAD
    assert share((ids, ids != PAD)) == 1
    assert share((ids, None)) == 1


def test_fewer_than_four_batches_say_nothing() -> None:
    rows = StuckRows()
    for seed in range(3):
        rows.add((filled(seed, TOKEN), None))
    assert rows.take_signs() == {}


def test_short_rows_and_no_rows_have_no_sign() -> None:
    rows = StuckRows()
    rows.add(None)
    rows.add((texts(0)[:, :8], None))
    assert rows.take_signs() == {}
