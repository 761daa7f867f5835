"""Facts about mixtures of experts that the table of laws does not hold."""

from __future__ import annotations

import numpy as np
import pytest

from pellucid.errors import MathsError
from pellucid.maths import (
    balancing_step,
    choose_experts,
    load_balancing_loss,
    mixture_of_experts,
    sigmoid_router,
    softmax,
    softmax_router,
    softmax_router_grad,
)
from support.layers import ROUTED, some


def test_a_token_chooses_exactly_k_experts_also_if_scores_are_equal() -> None:
    is_chosen = choose_experts(np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 2.0, 2.0]]), n_active=2)
    np.testing.assert_array_equal(
        is_chosen, [[True, True, False, False], [False, True, True, False]]
    )


def test_a_normalised_softmax_over_all_is_a_softmax_over_the_chosen() -> None:
    p = softmax(ROUTED)
    chosen_shares = np.where(choose_experts(p, n_active=2), p, 0.0)
    weights = softmax_router(ROUTED, n_active=2, normalised=True)
    np.testing.assert_allclose(
        weights, chosen_shares / chosen_shares.sum(-1, keepdims=True), rtol=1e-12
    )


def test_with_one_expert_a_normalised_router_learns_nothing() -> None:
    grad = softmax_router_grad(ROUTED, some(3, 5), n_active=1, normalised=True)
    np.testing.assert_allclose(grad, 0.0, atol=1e-15)


def test_the_bias_of_a_sigmoid_router_moves_the_choice_and_not_the_weights() -> None:
    logits = np.array([0.0, 1.0, 2.0])
    plain = sigmoid_router(logits, np.zeros(3), n_active=2, scale=2.0)
    biased = sigmoid_router(logits, np.array([5.0, 0.0, 0.0]), n_active=2, scale=2.0)
    s = 1 / (1 + np.exp(-logits))
    np.testing.assert_allclose(plain, 2 * np.array([0, s[1], s[2]]) / (s[1] + s[2]))
    np.testing.assert_allclose(biased, 2 * np.array([s[0], 0, s[2]]) / (s[0] + s[2]))


def test_a_mixture_of_equal_experts_is_one_of_them() -> None:
    output = some(3, 1, 2)
    weights = softmax_router(ROUTED, n_active=3, normalised=True)
    mixed = mixture_of_experts(weights, np.repeat(output, 5, axis=1))
    np.testing.assert_allclose(mixed, output[:, 0], rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_an_even_load_costs_k_and_every_other_load_that_follows_its_probabilities_more(
    k: int,
) -> None:
    even = np.full(8, 1 / 8)
    uneven = softmax(some(8))
    assert load_balancing_loss(even, k * even) == pytest.approx(k)
    assert load_balancing_loss(uneven, k * uneven) > k


def test_balancing_steps_even_out_the_load_of_a_router_that_prefers_one_expert() -> None:
    random = np.random.default_rng(0)
    logits, bias = random.normal(size=(500, 4)) + np.array([2.0, 0.0, 0.0, 0.0]), np.zeros(4)
    for _ in range(200):
        load = choose_experts(1 / (1 + np.exp(-logits)) + bias, n_active=1).sum(0)
        bias = balancing_step(bias, load.astype(float), rate=0.005)
    assert load.max() < 1.2 * load.mean()


def test_more_active_experts_than_there_are_is_refused() -> None:
    with pytest.raises(MathsError, match="n_active must be at most the number of experts, was 6"):
        softmax_router(ROUTED, n_active=6, normalised=True)
