"""What prompts and answers cost before the first update."""

from __future__ import annotations

import math

import pytest
import torch

from pellucid.batches import IGNORED
from pellucid.vitals.call.target_rows import prompt_and_answer_nats

TOKENS = torch.arange(24).remainder(8).repeat(2, 1)


def targets(first: int) -> torch.Tensor:
    following = torch.cat([TOKENS[:, 1:], torch.full((2, 1), IGNORED)], 1)
    return following.masked_fill(torch.arange(24) < first, IGNORED)


def test_prompts_that_the_model_knows_cost_less_than_answers_that_it_does_not() -> None:
    logits = torch.zeros(2, 24, 8)
    logits[:, :11].scatter_(2, TOKENS[:, 1:12, None], 20.0)
    signs = prompt_and_answer_nats(TOKENS, targets(11), logits)
    assert signs["targets.prompt_nats"] == pytest.approx(0.0, abs=1e-3)
    assert signs["targets.answer_nats"] == pytest.approx(math.log(8))


def test_rows_without_a_prompt_have_no_cost_of_one() -> None:
    assert prompt_and_answer_nats(TOKENS, targets(0), torch.zeros(2, 24, 8)) == {}
