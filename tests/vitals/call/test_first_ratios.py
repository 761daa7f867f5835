"""The first update of a policy: what its tokens weigh, whose rows come again, what is a group."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pellucid.vitals.call.answer_rows import RowReadings, mixed_groups
from pellucid.vitals.call.answers import Answers
from pellucid.vitals.call.pair_weights import ratio_tie

ROWS, PLACES = 8, 12


def log_p() -> Tensor:
    return -3 * torch.rand(ROWS, PLACES, generator=torch.Generator().manual_seed(0))


def test_tokens_of_an_answer_weigh_alike_until_the_policy_moves() -> None:
    generator = torch.Generator().manual_seed(1)
    advantages, noise = (torch.randn(ROWS, n, generator=generator) for n in (1, PLACES))
    now = log_p()
    alike = advantages.expand(ROWS, PLACES)
    assert ratio_tie(alike, now) == 0
    # the ratio to log P of other tokens goes with log P of these, also where a clip cuts some off
    ratios = advantages * (now - log_p().roll(1, 1)).exp()
    assert ratio_tie(ratios, now) > 0.5
    assert ratio_tie(ratios.masked_fill(ratios.abs() < 0.5, torch.nan), now) > 0.5
    # an advantage of each token has nothing to do with how likely it is
    assert abs(float(ratio_tie(noise, now))) < 0.5
    assert ratio_tie(ratios[:1], now[:1]) == 0  # too few


@pytest.mark.parametrize("read", [range(32), [*range(8), *range(16, 24)]])
def test_a_group_of_rows_side_by_side_may_answer_several_prompts(read: list[int]) -> None:
    rewards = torch.rand(32, generator=torch.Generator().manual_seed(2))
    rows = torch.tensor([*read])
    kinds = torch.randint(3, 90, (4, 6), generator=torch.Generator().manual_seed(3))
    tiled, in_order = kinds.repeat(8, 1), kinds.repeat_interleave(8, 0)
    centred = (rewards.view(4, 8) - rewards.view(4, 8).mean(1, keepdim=True)).flatten()
    whole = rewards - rewards.mean()
    readings = [RowReadings(rows, w[rows], torch.zeros(len(rows))) for w in (centred, whole)]
    assert mixed_groups(tiled, readings[0]) == {"answers.mixed": 1.0}
    assert mixed_groups(tiled, readings[1]) == {"answers.mixed": 0.0}
    assert mixed_groups(in_order, readings[0]) == {}


@pytest.mark.parametrize(("factor", "undone"), [(-1.0, 1.0), (-0.5, None), (1.0, None)])
def test_a_second_call_that_takes_the_first_one_back_is_told(
    factor: float, undone: float | None
) -> None:
    answers, ids = Answers(), torch.arange(60).view(6, 10)
    for times in (1.0, factor):
        answers.on_training(ids)
        logits = torch.zeros(6, 10, 70, requires_grad=True)
        answers.on_outputs(logits, None, lambda tensor, take: tensor.register_hook(take))
        signs = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])[:, None]
        paid = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        (times * signs * paid).mean().backward()
    assert answers.measure(is_scaled=False).get("answers.undone") == undone
