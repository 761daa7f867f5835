"""Rewards of answers, next to what the first gradient does with each answer."""

from __future__ import annotations

import pytest
import torch

from pellucid.vitals.call.answer_rows import RowReadings
from pellucid.vitals.call.reward_order import (
    FirstRewards,
    agreement,
    compare_rewards,
    judged_prompts,
    rows_of_rewards,
)

REWARDS = [0.1, 0.9, 0.4, 0.6, 5.1, 5.9, 5.4, 5.6]
PROMPTS = [0, 0, 0, 0, 4, 4, 4, 4]
ADVANTAGES = [-0.4, 0.4, -0.1, 0.1] * 2


def test_advantages_of_a_group_follow_its_rewards() -> None:
    assert agreement(ADVANTAGES, REWARDS, PROMPTS) == 1.0
    assert agreement([-a for a in ADVANTAGES], REWARDS, PROMPTS) == 0.0


def test_equal_rewards_and_unknown_weights_are_not_compared() -> None:
    assert agreement(ADVANTAGES, [1.0] * 8, PROMPTS) is None
    assert agreement([torch.nan] * 8, REWARDS, PROMPTS) is None


@pytest.mark.parametrize(("sign", "share"), [(1.0, 1.0), (-1.0, 0.0)])
def test_rows_of_two_calls_are_compared_with_one_row_of_rewards(sign: float, share: float) -> None:
    parts = (sign * torch.tensor(REWARDS)).chunk(2)
    readings = {call: RowReadings(torch.arange(4), part, part) for call, part in enumerate(parts)}
    signs = compare_rewards(torch.tensor(REWARDS), [4, 4], readings, None)
    assert signs == {"answers.agreement": share}
    assert compare_rewards(torch.tensor(REWARDS[:7]), [4, 4], readings, None) == {}


def test_prompts_of_the_first_call_are_groups() -> None:
    prompts = torch.tensor([[1, 2]] * 4 + [[1, 3]] * 4)
    weights = torch.tensor(ADVANTAGES)
    readings = {0: RowReadings(torch.arange(8), weights, weights)}
    signs = compare_rewards(torch.tensor(REWARDS), [8], readings, prompts)
    assert signs == {"answers.agreement": 1.0}


def test_only_rewards_of_several_answers_count() -> None:
    assert rows_of_rewards({"reward": 0.5, "loss": torch.zeros(4)}) is None
    assert rows_of_rewards({"reward": torch.tensor(0.5)}) is None
    rewards = rows_of_rewards({"rewards": torch.tensor([[0.5, 1.0]])})
    assert rewards is not None
    assert rewards.tolist() == [0.5, 1.0]


def test_prompts_whose_answers_earn_the_same_judge_nothing() -> None:
    prompts = torch.tensor([[1, 2]] * 4 + [[1, 3]] * 4)
    rewards = torch.tensor([0.5] * 4 + REWARDS[4:])
    assert judged_prompts(rewards, prompts) == {"answers.judged": 0.5}
    assert judged_prompts(rewards, None) == judged_prompts(rewards[:7], prompts) == {}


def first_rewards() -> FirstRewards:
    """Those of an update that ended before its rewards were passed."""
    rewards, weights = FirstRewards(), torch.tensor(ADVANTAGES)
    readings = {0: RowReadings(torch.arange(8), weights, weights)}
    prompts = torch.tensor([[1, 2]] * 4 + [[1, 3]] * 4)
    assert rewards.compare([8], readings, prompts) == {}
    assert rewards.is_waiting
    return rewards


def test_rewards_that_come_after_the_step_are_those_of_its_answers() -> None:
    rewards = first_rewards()
    rewards.take(torch.tensor(REWARDS))
    rewards.close()
    rewards.take(-torch.tensor(REWARDS))  # of the next update
    assert rewards.compare_late() == {"answers.agreement": 1.0, "answers.judged": 1.0}
    assert not rewards.is_waiting
    assert rewards.compare_late() == {}


def test_rewards_that_come_with_the_next_answers_are_not_compared() -> None:
    rewards = first_rewards()
    rewards.close()
    rewards.take(torch.tensor(REWARDS))
    assert rewards.compare_late() == {}
