"""Where the answers of a model that marks them stand."""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.vitals.ledger.answer_places import count_answers, share_misplaced

CLS, SEP, ROWS = 1, 2, 12
IDS = torch.tensor([[CLS, 11, 12, SEP, 21, 22, 23, 24, 25, SEP, 0, 0]] * ROWS)
IDS[0, 9:] = torch.tensor([26, 27, SEP])
MASK = (IDS != 0).long()


def share(starts: Tensor, ends: Tensor) -> float:
    counts = count_answers(IDS, MASK, starts, ends)
    assert counts is not None
    return float(share_misplaced(2 * counts))


def all_at(start: int, end: int) -> tuple[Tensor, Tensor]:
    return torch.full((ROWS,), start), torch.full((ROWS,), end)


def test_answers_in_one_text_are_where_they_belong() -> None:
    assert share(*all_at(4, 6)) == 0
    assert share(*all_at(1, 2)) == 0  # the text may come first
    assert share(*all_at(0, 0)) == 0  # no answer


def test_answers_where_none_can_stand_count() -> None:
    assert share(*all_at(9, 9)) > 0.9  # the separator, in all rows but one
    assert share(*all_at(4, 11)) == 1
    assert share(*all_at(6, 5)) == 1


def test_answers_in_both_texts_count_once() -> None:
    starts, ends = all_at(4, 5)
    starts[:3], ends[:3] = 1, 2
    assert share(starts, ends) == 3 / ROWS


def test_few_answers_and_calls_without_any_say_nothing() -> None:
    counts = count_answers(IDS, MASK, *all_at(6, 5))
    assert counts is not None
    assert float(share_misplaced(counts)) == 0
    assert count_answers(IDS, MASK, None, None) is None
