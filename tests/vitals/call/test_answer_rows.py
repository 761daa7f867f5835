"""What ids say of rows that belong together: pairs that hardly differ, answers that are alike."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid.vitals.call.answer_rows import (
    MaskedIds,
    RowReadings,
    alike,
    begin_alike,
    compare_pairs,
    mixed_groups,
    pair_signs,
    pays_last_alone,
)
from pellucid.vitals.call.answers import Answers
from pellucid.vitals.call.pair_weights import own_weights


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


def test_a_pair_that_comes_twice_is_not_one_text_twice() -> None:
    calls = [padded(WHOLE * 2, left=False)]
    weights = torch.tensor([1.0, -1.0] * 4)
    sides = {0: RowReadings(torch.arange(8), weights, weights)}
    assert pair_signs(calls)["answers.equal"] == 1.0
    assert pair_signs(calls, sides) == {"answers.tail": 3.0, "answers.equal": 0.0}


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


CHOSEN = [[place, 7, 8, 9] for place in range(8)]
REJECTED = [[place, 5] for place in range(6)] + [[6, 1, 1, 1], [7, 2, 2, 2, 2]]


def reading(n: int, weight: float, surplus: float = torch.nan) -> RowReadings:
    return RowReadings(torch.arange(n), torch.full((n,), weight), torch.full((n,), surplus))


def test_side_that_is_longer_is_counted_pair_by_pair() -> None:
    calls = [padded(CHOSEN, left=False), padded(REJECTED, left=True)]
    signs = compare_pairs(calls, {0: reading(8, 1.0), 1: reading(8, -1.0)})
    sides = {"answers.longer": 6.5 / 8, "answers.first": 1.0, "answers.split": 0.0}
    sides |= {"answers.same_chosen": 0.0, "answers.same_rejected": 0.0}
    assert signs == sides | {"answers.pairs": 8.0, "answers.matched": 1.0}
    assert compare_pairs(calls, {0: reading(5, 1.0), 1: reading(5, -1.0)}) == {}


def test_answers_that_are_raised_though_they_come_second_and_are_strange_are_counted() -> None:
    both = [row for pair in zip(REJECTED, CHOSEN, strict=True) for row in pair]
    weights, surplus = torch.tensor([-1.0, 1.0] * 8), torch.tensor([0.25, -2.0] * 8)
    one_call = {0: RowReadings(torch.arange(16), weights, surplus)}
    signs = compare_pairs([padded(both, left=False)], one_call)
    assert (signs["answers.first"], signs["answers.stranger"]) == (0.0, 1.0)
    assert signs["answers.gap"] == 2.25


@pytest.mark.parametrize(
    ("sides", "share"), [([1, -1], 0.0), ([1, 1, -1, -1], 1.0), ([-1, 1, 1, -1], 0.0)]
)
def test_pairs_that_are_compared_across_prompts_are_counted(sides: list[int], share: float) -> None:
    prompts = [[1, 10 + place, 20 + place, 30 + place, 40 + place] for place in range(8)]
    rows = [row for prompt in prompts for row in pair(prompt, [7, 8], [5])]
    weights = torch.tensor(sides * (len(rows) // len(sides))).float()
    one_call = {0: RowReadings(torch.arange(len(rows)), weights, weights)}
    assert compare_pairs([padded(rows, left=True)], one_call)["answers.split"] == share


@pytest.mark.parametrize(("tiled", "expected"), [(True, {"answers.mixed": 1.0}), (False, {})])
def test_rows_that_are_centred_across_prompts_are_told(
    tiled: bool, expected: dict[str, float]
) -> None:
    prompts = torch.tensor([[1, 2], [1, 3]])
    prompts = prompts.repeat(3, 1) if tiled else prompts.repeat_interleave(3, 0)
    weights = torch.tensor([0.5, 0.25, -0.75, -0.5, 1.0, -0.5])
    one = RowReadings(torch.arange(6), weights, weights)
    assert mixed_groups(prompts, one) == expected
    whole = one._replace(weights=torch.tensor([0.5, 0.25, -0.75, 0.5, 0.25, 0.5]))
    assert mixed_groups(prompts, whole) == ({"answers.mixed": 0.0} if tiled else {})


def test_weights_of_own_answers() -> None:
    equal, mixed = torch.full((8,), -0.5), torch.tensor([1.0, -1.0] * 4)
    assert own_weights(equal) == {"answers.lowered": 1.0, "answers.level": 0.0}
    assert own_weights(mixed) == {"answers.lowered": 0.5, "answers.level": 1.0}
    assert own_weights(equal[:2]) == {}
    # rows without a gradient may be those that were not chosen
    unknown = torch.tensor([torch.nan, *equal.tolist()])
    assert own_weights(unknown) == {"answers.lowered": 1.0}


@pytest.mark.parametrize("first", [0, 3, 7])
def test_an_answer_is_paid_for_as_a_whole_or_at_its_last_token(first: int) -> None:
    gradient = torch.zeros(4, 10, 5)
    gradient[:, 2 + first] = 1.0
    assert pays_last_alone(gradient, 3) == (first == 7)
    gradient[:, 2:] = 1.0
    assert not pays_last_alone(gradient, 3)
    assert not pays_last_alone(gradient[:, :4], 3)


def test_answers_in_any_order_begin_with_the_prompts_they_were_written_from() -> None:
    prompts = torch.arange(12).view(4, 3)
    answers = torch.cat([prompts, torch.full((4, 2), 99)], 1)
    assert begin_alike(answers[[2, 0]], prompts)
    assert not begin_alike(prompts, prompts)
    assert not begin_alike(answers + 1, prompts)


def test_places_that_labels_leave_out_are_not_paid_for() -> None:
    """A loop sums log P over all places, and the model gives 0 at those of prompts."""
    answers, lengths = Answers(), [3, 5, 2, 6, 4, 7, 3]
    prompts = [[1, 10 + i, 50 + i, 90] for i in range(len(lengths))]
    rows = [
        [*prompt, *[side] * n, *[0] * (8 - n)]
        for side in (3, 4)
        for prompt, n in zip(prompts, lengths, strict=True)
    ]
    place = torch.arange(12)
    n_paid = torch.tensor(lengths * 2)[:, None]
    is_paid = (place >= 4) & (place < 4 + n_paid)
    answers.on_training(torch.tensor(rows))
    hooks: list[Any] = []
    log_ps = (-2.0 * is_paid).requires_grad_()
    output = SimpleNamespace(log_probs=log_ps, entropy=1.5 * is_paid)
    answers.on_outputs(None, output, lambda _, hook: hooks.append(hook))
    sign = torch.tensor([-1.0] * len(lengths) + [1.0] * len(lengths))[:, None]
    for hook in hooks:
        hook((sign / n_paid).expand(-1, 12))
    signs = answers.measure(is_scaled=False)
    assert signs["answers.explained"] == 1.0
    assert answers._rows[0].surplus.tolist() == pytest.approx([-0.5] * 14)
