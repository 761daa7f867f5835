"""Checksums of rows: the same text has the same number, and other text has another."""

from __future__ import annotations

import torch

from pellucid.vitals.call.row_content import one_token
from pellucid.vitals.ledger.batch_rows import ROWS, first_rows, row_checksums


def test_a_row_has_one_checksum_with_any_padding_and_any_mask() -> None:
    text = torch.arange(5, 25)[None]
    padding = torch.zeros(1, 4, dtype=torch.long)
    right, left = torch.cat([text, padding], 1), torch.cat([padding, text], 1)
    masked = text.masked_fill(torch.arange(20) % 3 == 0, 3)
    labels = text.masked_fill(masked != 3, -100)
    batches = [
        first_rows(text),
        first_rows(right, (right > 0).long()),
        first_rows(left, (left > 0).long()),
        first_rows(masked, None, labels),
    ]
    numbers = row_checksums(batches)
    assert len({tuple(number) for number in numbers.tolist()}) == 1
    assert numbers[0, 0] == 20
    assert torch.equal(row_checksums([None, batches[0]]), numbers[:2] * torch.tensor([[0.0], [1]]))


def test_other_rows_have_other_checksums() -> None:
    draws = torch.Generator().manual_seed(0)
    rows = torch.randint(50, (500, 20), generator=draws)
    rows[1] = rows[0].flip(0)
    pieces = row_checksums([first_rows(rows[i : i + ROWS]) for i in range(0, len(rows), ROWS)])
    assert len({*pieces[:, 1:].flatten().tolist(), 0.0}) == len(rows) + 1
    assert first_rows(rows[0]) is None


def test_rows_of_one_token_are_known_between_their_ends_and_padding_is_none() -> None:
    text = torch.randint(2, 50, (4, 32), generator=torch.Generator().manual_seed(1))
    unknown = torch.full((4, 32), 7)
    unknown[:, 0], unknown[:, -1] = 1, 2
    short = text.clone()
    short[:, 12:] = 0
    assert one_token(unknown) == one_token(unknown[:, :-1]) == one_token(unknown[:, 1:]) == 1
    assert one_token(torch.full((4, 32), 7)) == 1
    assert one_token(torch.cat([unknown[:2], text[:2]])) == 0.5
    assert one_token(short) == 0
    assert one_token(short.flip(1)) == 0
    assert one_token((text > 25).long()) == 0
