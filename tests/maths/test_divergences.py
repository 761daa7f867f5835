from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pellucid import maths

FEW_EXAMPLES = settings(max_examples=30)
SCORES = arrays(np.float64, (3, 5), elements=st.floats(-30, 30))


def from_json(shared_data: Path, key: str) -> dict:
    return json.loads((shared_data / "reference-vectors" / "losses.json").read_text())[key]


@FEW_EXAMPLES
@given(x=SCORES, y=SCORES)
def test_cross_entropy_is_entropy_plus_kl(x: np.ndarray, y: np.ndarray) -> None:
    p, q = maths.softmax(x), maths.softmax(y)
    entropy_plus_kl = maths.entropy(p) + maths.kl_divergence(p, q)
    np.testing.assert_allclose(
        maths.cross_entropy_between(p, q), entropy_plus_kl, rtol=1e-10, atol=1e-12
    )


@FEW_EXAMPLES
@given(x=SCORES, y=SCORES)
def test_kl_is_never_negative_and_zero_for_the_same(x: np.ndarray, y: np.ndarray) -> None:
    p, q = maths.softmax(x), maths.softmax(y)
    assert (maths.kl_divergence(p, q) >= -1e-15).all()
    assert not maths.kl_divergence(p, p).any()


@FEW_EXAMPLES
@given(x=SCORES, y=SCORES)
def test_jensen_shannon_is_symmetric_and_at_most_log_two(x: np.ndarray, y: np.ndarray) -> None:
    p, q = maths.softmax(x), maths.softmax(y)
    forward, backward = maths.jensen_shannon(p, q), maths.jensen_shannon(q, p)
    np.testing.assert_allclose(forward, backward, rtol=1e-12, atol=1e-15)
    assert (forward <= math.log(2) + 1e-15).all()


@FEW_EXAMPLES
@given(x=SCORES, y=SCORES)
def test_kl_from_logits_is_kl_in_both_directions(x: np.ndarray, y: np.ndarray) -> None:
    p, q = maths.softmax(x), maths.softmax(y)
    tolerance = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(maths.forward_kl(y, x), maths.kl_divergence(p, q), **tolerance)
    np.testing.assert_allclose(maths.reverse_kl(y, x), maths.kl_divergence(q, p), **tolerance)
    divergence = maths.jensen_shannon(p, q)
    np.testing.assert_allclose(maths.jensen_shannon_of_logits(y, x), divergence, **tolerance)
    np.testing.assert_array_equal(maths.forward_kl_grad(y, x), q - p)
    np.testing.assert_allclose(maths.reverse_kl_grad(y, x).sum(-1), 0, atol=1e-10)


@FEW_EXAMPLES
@given(x=SCORES)
def test_entropy_lies_between_zero_and_log_k_and_above_renyis(x: np.ndarray) -> None:
    p = maths.softmax(x)
    h = maths.entropy(p)
    assert ((h >= 0) & (h <= math.log(5) + 1e-12)).all()
    assert (maths.renyi2_entropy(p) <= h + 1e-12).all()
    np.testing.assert_allclose(maths.entropy_of_logits(x), h, rtol=1e-9, atol=1e-12)


@FEW_EXAMPLES
@given(x=arrays(np.float64, 5, elements=st.floats(-20, 20)))
def test_k1_and_k3_are_right_on_average_and_k3_is_never_negative(x: np.ndarray) -> None:
    p, q = maths.softmax(x), maths.softmax(x[::-1])
    log_ratio = np.log(p) - np.log(q)
    for estimate in (maths.kl_k1, maths.kl_k3):
        mean = (q * estimate(log_ratio)).sum()
        np.testing.assert_allclose(mean, maths.kl_divergence(q, p), rtol=1e-9, atol=1e-12)
    assert (maths.kl_k3(log_ratio) >= 0).all()


def test_gaussians_agree_in_every_form() -> None:
    mean, std, other, other_std = np.random.default_rng(0).uniform(0.5, 2, size=(4, 3))
    sum_of_kls = maths.gaussian_kl(mean, std, other, other_std).sum()
    diagonal = maths.gaussian_kl_diagonal(mean, 2 * np.log(std), other, 2 * np.log(other_std))
    full = maths.gaussian_kl_full(mean, np.diag(std**2), other, np.diag(other_std**2))
    np.testing.assert_allclose([diagonal, full], sum_of_kls, rtol=1e-12)


def test_gaussian_kl_is_the_integral() -> None:
    x = np.linspace(-40, 40, 400_001)
    log_p = -(((x - 1) / 2) ** 2) / 2 - math.log(2)
    log_q = -(x**2) / 2
    integral = (np.exp(log_p) * (log_p - log_q)).sum() * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    own_kl = maths.gaussian_kl(*map(np.array, (1.0, 2.0, 0.0, 1.0)))
    assert own_kl == pytest.approx(integral, rel=1e-9)


def test_a_row_that_is_masked_throughout_has_no_entropy_and_no_gradient() -> None:
    x = np.array([[-np.inf] * 3, [0.0, 0.0, -np.inf]])
    np.testing.assert_allclose(maths.entropy_of_logits(x), [0, math.log(2)], rtol=1e-15)
    assert not maths.entropy_of_logits_grad(x)[0].any()


def test_published_kl_is_reproduced(shared_data: Path) -> None:
    optax = from_json(shared_data, "kl_optax")
    # the second row of these targets sums to 0.9: no distribution, so its terms are summed
    terms = maths.relative_entropy(
        np.array(optax["targets"]), np.exp(np.array(optax["log_predictions"]))
    )
    np.testing.assert_allclose(terms.sum(-1), optax["kl"], atol=optax["tolerance"])


def test_published_relative_entropy_is_reproduced_where_it_is_hard(shared_data: Path) -> None:
    scipy = from_json(shared_data, "rel_entr_scipy_mpmath")
    x, y = np.array(scipy["x_y"]).T
    np.testing.assert_allclose(
        maths.relative_entropy(x, y), scipy["x_log_x_over_y"], rtol=5e-13, atol=0
    )


def test_published_preference_losses_are_reproduced(shared_data: Path) -> None:
    table = from_json(shared_data, "dpo_torchtune")
    sides = ("policy_chosen", "policy_rejected", "ref_chosen", "ref_rejected")
    log_ps = [np.array(table[side]) for side in sides]
    loss = maths.dpo_loss(*log_ps, beta=table["beta"], label_smoothing=table["label_smoothing"])
    np.testing.assert_allclose(loss, table["loss_sigmoid"], atol=1e-8)
    margin = maths.dpo_margin(*log_ps, beta=table["beta"])
    hinge = maths.hinge_preference_loss(margin)
    np.testing.assert_allclose(hinge, table["loss_rso_hinge_gamma_0.1"], atol=1e-12)
