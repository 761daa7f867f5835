"""Checksums of rows: the same text has the same number, and other text has another."""

from __future__ import annotations

import torch

from pellucid.vitals.call.row_content import one_token
from pellucid.vitals.ledger.batch_rows import (
    ROWS,
    first_rows,
    gram_checksums,
    masked_places,
    overlaps,
    row_checksums,
    text_checksums,
)
from pellucid.vitals.ledger.marks import SAME_MASKS


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


def test_classes_of_tokens_are_no_tokens_of_a_row() -> None:
    text = torch.randint(50, (2, 20), generator=torch.Generator().manual_seed(2))
    classes = torch.zeros_like(text)
    assert torch.equal(*(row_checksums([first_rows(text, None, x)]) for x in (None, classes)))
    letters = text % 8  # a vocabulary of few ids may be masked too
    rows = first_rows(letters.masked_fill(text > 40, 9), None, letters)
    assert rows is not None
    assert torch.equal(rows[0], letters)


def test_other_rows_have_other_checksums() -> None:
    draws = torch.Generator().manual_seed(0)
    rows = torch.randint(50, (500, 20), generator=draws)
    rows[1] = rows[0].flip(0)
    pieces = row_checksums([first_rows(rows[i : i + ROWS]) for i in range(0, len(rows), ROWS)])
    assert len({*pieces[:, 1:].flatten().tolist(), 0.0}) == len(rows) + 1
    assert first_rows(rows[0]) is None


def test_one_source_with_another_target_is_another_row() -> None:
    sources = torch.arange(5, 25).repeat(4, 1)
    targets = torch.tensor([[7, 8, 9, -100], [7, 8, 9, 6], [7, 8, 9, -100], [-100] * 4])
    numbers = text_checksums(targets)
    assert numbers[0] == numbers[2] != numbers[1]
    assert numbers[3] == 0
    batches = [first_rows(sources), None]
    rows, pieces = (f(batches, [numbers, None]) for f in (row_checksums, gram_checksums))
    alone, alone_pieces = row_checksums(batches), gram_checksums(batches)
    assert len(set(alone[0, 1:5].tolist())) == 1
    assert len(set(rows[0, 1:5].tolist())) == 3
    assert rows[0, 4] == alone[0, 4]
    first, second, third = pieces[0].view(ROWS, -1)[:3]
    assert torch.equal(first, third)
    assert not torch.isin(first, second).any()
    assert torch.equal(alone_pieces[1], pieces[1])


def test_rows_of_one_token_are_known_between_their_ends_and_padding_is_none() -> None:
    text = torch.randint(2, 50, (4, 32), generator=torch.Generator().manual_seed(1))
    unknown = torch.full((4, 32), 7)
    unknown[:, 0], unknown[:, -1] = 1, 2
    short = text.clone()
    short[:, 12:] = 0
    assert one_token(unknown) == one_token(unknown[:, :-1]) == one_token(unknown[:, 1:]) == 1
    assert one_token(torch.full((4, 32), 7)) == 1
    assert one_token(torch.cat([unknown[:2], text[:2]])) == 0.5
    padded = unknown[:, 1:-1].clone()
    padded[:, 20:] = 0
    assert one_token(padded) == one_token(padded.flip(1)) == 1
    assert one_token(short) == 0
    assert one_token(short.flip(1)) == 0
    assert one_token((text > 25).long()) == 0


def test_masks_at_fixed_places_overlap_and_random_ones_do_not() -> None:
    def masks(step: int, *, is_fixed: bool, places: slice = slice(None)) -> torch.Tensor | None:
        draws = torch.Generator().manual_seed(0 if is_fixed else step)
        chosen = torch.rand((8, 40), generator=draws) < 0.15
        ids = torch.randint(5, 99, (8, 40), generator=torch.Generator().manual_seed(step))
        labels = ids.masked_fill(~chosen, -100)
        return masked_places(ids.masked_fill(chosen, 3)[:, places], labels[:, places])

    fixed = overlaps([masks(0, is_fixed=True), masks(1, is_fixed=True, places=slice(36))])
    assert fixed[0] == -1
    assert fixed[1] > SAME_MASKS
    assert 0 <= overlaps([masks(step, is_fixed=False) for step in range(2)])[1] < 0.3
    assert overlaps([None, masks(0, is_fixed=True)])[1] == -1


def test_answers_are_no_masks() -> None:
    ids = torch.arange(80).view(2, 40) % 7
    together = ids.masked_fill(torch.arange(40) < 20, -100)
    apart = ids.masked_fill(torch.arange(40) % 4 != 0, -100)
    for labels in (together, apart):  # one piece; various tokens
        places = masked_places(ids, labels)
        assert places is not None
        assert not places.any()
