"""Pairs of small batches are gathered over the first updates, until there are enough."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pellucid.vitals.call.answers import Answers


def update(answers: Answers, n_pairs: int, first: int) -> None:
    """One call of chosen rows, then rejected ones, with the gradient of their scores."""
    prompts = [[1, 10 + first + i, 50 + first + i] for i in range(n_pairs)]
    rows = [[*prompt, side] for side in (3, 4) for prompt in prompts]
    answers.on_training(torch.tensor(rows))
    hooks: list[Callable[[Tensor], None]] = []
    scores = torch.zeros(2 * n_pairs, requires_grad=True)
    answers.on_outputs(None, scores, lambda _, hook: hooks.append(hook))
    for hook in hooks:
        hook(torch.tensor([-1.0] * n_pairs + [1.0] * n_pairs))


def test_enough_pairs_are_compared_at_once() -> None:
    answers = Answers()
    update(answers, 6, 0)
    assert answers.measure(is_scaled=False)["answers.pairs"] == 6
    assert not answers.is_open


def test_a_few_pairs_wait_for_those_of_later_updates() -> None:
    answers = Answers()
    update(answers, 4, 0)
    assert "answers.pairs" not in answers.measure(is_scaled=False)
    assert answers.is_open
    update(answers, 4, 4)
    signs = answers.measure_later()
    assert (signs["answers.pairs"], signs["answers.first"]) == (8, 1.0)
    assert not answers.is_open
    assert not {"answers.explained", "answers.units"} & signs.keys()
    update(answers, 4, 8)
    assert answers.measure_later() == {}


@pytest.mark.parametrize(("n_updates", "is_open"), [(7, True), (8, False)])
def test_too_few_pairs_are_given_up_after_some_calls(n_updates: int, is_open: bool) -> None:
    answers = Answers()
    update(answers, 2, 0)
    answers.measure(is_scaled=False)
    for _ in range(1, n_updates):
        update(answers, 1, 0)  # this prompt's rows have one partner for all
        answers._rows.clear()
        assert answers.measure_later() == {}
    assert answers.is_open is is_open
