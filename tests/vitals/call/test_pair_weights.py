"""Weights of pairs that their own log P explains, and weights that it does not."""

from __future__ import annotations

import math

import pytest
import torch

from pellucid.vitals.call.pair_weights import (
    PaidAnswer,
    balance_of_sides,
    differ_in_unit,
    explain_weights,
    rank_correlation,
)

LOG_PS = [(-20.0, -26.0), (-31.0, -22.0), (-12.0, -13.0), (-25.0, -37.0), (-8.0, -30.0)]
LOG_PS += [(-16.0, -9.0), (-40.0, -41.5), (-22.0, -18.0)]
LENGTHS = [(5, 6), (9, 5), (4, 4), (7, 9), (2, 8), (5, 3), (11, 10), (6, 4)]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def measured(weights: list[float], *, by_token: bool = False) -> dict[str, float]:
    pairs = [
        tuple(
            PaidAnswer(weight / (n if by_token else 1), log_p, n)
            for log_p, n in zip(log_ps, lengths, strict=True)
        )
        for weight, log_ps, lengths in zip(weights, LOG_PS, LENGTHS, strict=True)
    ]
    return explain_weights(pairs)  # pyright: ignore[reportArgumentType]


def test_equal_weights_are_explained_for_answers_and_for_their_tokens() -> None:
    assert measured([0.05] * 8)["answers.explained"] == 1.0
    assert measured([0.05] * 8, by_token=True)["answers.explained"] == 1.0


def test_a_loss_without_a_reference_weighs_by_the_model_s_own_log_ratio() -> None:
    sums = [sigmoid(-0.1 * (a - b)) for a, b in LOG_PS]
    assert measured(sums)["answers.explained"] == pytest.approx(1.0)
    means = [sigmoid(-2 * (a / n - b / m)) for (a, b), (n, m) in zip(LOG_PS, LENGTHS, strict=True)]
    assert measured(means, by_token=True)["answers.explained"] == pytest.approx(1.0)


def test_a_loss_that_weighs_pairs_by_their_probability_is_explained() -> None:
    assert measured([math.exp((a + b) / 20) for a, b in LOG_PS])["answers.explained"] > 0.99


def test_another_reference_explains_nothing() -> None:
    ratios = (3.0, -20.0, 9.0, 2.0, -14.0, 11.0, 25.0, -9.0)
    margins = [a - b - ratio for (a, b), ratio in zip(LOG_PS, ratios, strict=True)]
    assert measured([sigmoid(-0.1 * margin) for margin in margins])["answers.explained"] < 0.9


@pytest.mark.parametrize(
    ("means", "expected"),
    [((True, False), 1.0), ((False, True), 1.0), ((True, True), 0.0), ((False, False), 0.0)],
)
def test_a_sum_that_is_compared_with_a_mean_is_told(
    means: tuple[bool, bool], expected: float
) -> None:
    pairs = [
        tuple(
            PaidAnswer(sigmoid(-margin) / (n if is_mean else 1), -9.0, n)
            for n, is_mean in zip(lengths, means, strict=True)
        )
        for margin, lengths in enumerate(LENGTHS)
    ]
    assert differ_in_unit(pairs) == {"answers.units": expected}  # pyright: ignore[reportArgumentType]
    alike = [(PaidAnswer(0.05, -9.0, 4), PaidAnswer(0.0125, -9.0, 4))] * 8
    assert differ_in_unit(alike) == {"answers.units": 0.0}


def test_unknown_log_p_and_few_pairs_say_nothing() -> None:
    unknown = PaidAnswer(0.1, math.nan, 4)
    assert explain_weights([(unknown, unknown)] * 9) == {}
    assert explain_weights([(PaidAnswer(0.1, -3, 4), PaidAnswer(0.2, -4, 4))] * 5) == {}


def test_ranks_of_a_constant_correlate_with_nothing() -> None:
    assert rank_correlation([1, 1, 1], [1, 2, 3]) == 0.0
    assert rank_correlation([1, 5, 9], [3, 2, 1]) == pytest.approx(-1.0)


@pytest.mark.parametrize("broken", [PaidAnswer(math.inf, -9.0, 4), PaidAnswer(0.1, -9.0, math.nan)])
def test_pairs_with_a_number_that_is_none_are_left_out(broken: PaidAnswer) -> None:
    whole = PaidAnswer(0.05, -9.0, 4)
    assert explain_weights([(broken, whole)] * 9) == {}
    assert explain_weights([(whole, whole)] * 8 + [(broken, whole)]) == {"answers.explained": 1.0}


def test_sides_of_one_weight_each_have_a_balance_and_others_have_none() -> None:
    raised, lowered = torch.full((4,), 0.5), torch.full((8,), 0.01)
    assert balance_of_sides(raised, lowered)["answers.balance"] == pytest.approx(25.0)
    assert balance_of_sides(raised[:2], lowered) == {}
    assert balance_of_sides(torch.tensor([0.1, 0.3, 0.5]), lowered) == {}
