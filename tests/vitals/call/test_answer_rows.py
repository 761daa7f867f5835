"""What ids say of rows that belong together: pairs that hardly differ, answers that are alike."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pellucid.vitals.call.answer_rows import MaskedIds, alike, longer_answers, pair_signs


def pair(start: list[int], chosen: list[int], rejected: list[int]) -> list[list[int]]:
    return [start + chosen, start + rejected]


def padded(rows: list[list[int]], *, left: bool) -> MaskedIds:
    width = max(map(len, rows))
    gaps = [[0] * (width - len(row)) for row in rows]
    ids = [g + row if left else row + g for g, row in zip(gaps, rows, strict=True)]
    ones = [[1] * len(row) for row in rows]
    mask = [g + one if left else one + g for g, one in zip(gaps, ones, strict=True)]
    return torch.tensor(ids), torch.tensor(mask)


WHOLE = pair([1, 2, 3], [7, 8, 9, 4], [7, 5, 4]) + pair([1, 2], [6, 6, 4], [8, 4])
CUT = pair([1, 2, 3], [7], [7]) + pair([1, 2], [6], [8]) + pair([1, 3], [5], [7])


@pytest.mark.parametrize("left", [False, True])
def test_tail_of_a_pair_is_what_its_longer_answer_adds(left: bool) -> None:
    assert pair_signs([padded(WHOLE, left=left)]) == {"answers.tail": 3.0, "answers.equal": 0.0}
    signs = pair_signs([padded(CUT, left=left)])
    assert signs == {"answers.tail": 1.0, "answers.equal": pytest.approx(1 / 3)}


def test_answers_of_a_pair_may_come_in_two_calls() -> None:
    calls = [padded(CUT[::2], left=False), padded(CUT[1::2], left=False)]
    assert pair_signs(calls) == pair_signs([padded(CUT, left=False)])


def test_rows_without_a_mask_keep_their_padding() -> None:
    ids, _ = padded(WHOLE, left=False)
    assert pair_signs([(ids, None)])["answers.tail"] >= 3


def test_one_row_has_no_partner() -> None:
    assert pair_signs([padded(CUT[:1], left=False)]) == {}


@pytest.mark.parametrize(
    ("answers", "share"),
    [
        ([[7, 8], [7, 8], [7, 8], [5, 5]], 0.5),
        ([[7, 8], [7, 8], [6, 6], [6, 6]], 1.0),
        ([[7, 8], [6, 8], [7, 8], [6, 8]], 0.0),
    ],
)
def test_share_of_answers_that_equal_another_to_their_prompt(
    answers: list[list[int]], share: float
) -> None:
    prompts = torch.tensor([[1, 2], [1, 2], [1, 3], [1, 3]])
    ids: Tensor = torch.cat([prompts, torch.tensor(answers)], 1)
    assert alike(ids, prompts) == share


def test_prompts_that_are_answered_once_show_nothing() -> None:
    prompts = torch.tensor([[1, 2], [1, 3]])
    assert alike(torch.cat([prompts, prompts], 1), prompts) is None


def test_side_that_is_longer_is_counted_pair_by_pair() -> None:
    chosen = [[place, 7, 8, 9] for place in range(8)]
    rejected = [[place, 5] for place in range(6)] + [[6, 1, 1, 1], [7, 2, 2, 2, 2]]
    calls = [padded(chosen, left=False), padded(rejected, left=True)]
    weights = {0: (torch.arange(8), torch.ones(8)), 1: (torch.arange(8), -torch.ones(8))}
    signs = longer_answers(calls, weights)
    assert signs == {"answers.longer": 6.5 / 8, "answers.pairs": 8.0}
    few = {call: (places[:7], weights[:7]) for call, (places, weights) in weights.items()}
    assert longer_answers(calls, few) == {}
