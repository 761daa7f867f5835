from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pellucid.maths import log_softmax, logsumexp, softmax, softmax_grad

FEW_EXAMPLES = settings(max_examples=30)
SCORES = arrays(np.float64, (2, 5), elements=st.floats(-50, 50))


@FEW_EXAMPLES
@given(x=SCORES)
def test_shares_are_positive_and_sum_to_one(x: np.ndarray) -> None:
    p = softmax(x)
    assert (p > 0).all()
    np.testing.assert_allclose(p.sum(-1), 1.0, rtol=1e-14)


@FEW_EXAMPLES
@given(x=SCORES, shift=st.floats(-1e4, 1e4))
def test_adding_a_number_to_every_score_changes_no_share(x: np.ndarray, shift: float) -> None:
    np.testing.assert_allclose(softmax(x + shift), softmax(x), rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(logsumexp(x + shift), logsumexp(x) + shift, rtol=1e-9, atol=1e-9)


@FEW_EXAMPLES
@given(x=SCORES)
def test_log_softmax_is_the_logarithm_of_softmax(x: np.ndarray) -> None:
    np.testing.assert_allclose(np.exp(log_softmax(x)), softmax(x), rtol=1e-12)


@FEW_EXAMPLES
@given(x=SCORES, grad=SCORES)
def test_gradient_by_the_scores_sums_to_zero(x: np.ndarray, grad: np.ndarray) -> None:
    np.testing.assert_allclose(softmax_grad(x, grad).sum(-1), 0.0, atol=1e-12)


def test_fully_masked_row_gives_zeros_and_leaves_its_neighbours_alone() -> None:
    x = np.array([[-np.inf] * 3, [0.0, math.log(2), -np.inf]])
    np.testing.assert_allclose(softmax(x), [[0, 0, 0], [1 / 3, 2 / 3, 0]], rtol=1e-15)
    np.testing.assert_allclose(logsumexp(x), [-np.inf, math.log(3)], rtol=1e-15)
    assert np.isneginf(log_softmax(x)[0]).all()
    assert not softmax_grad(x, np.ones_like(x)).any()


def test_softmax_of_equal_scores_is_even_however_large_they_are() -> None:
    for height in (-1e4, 0.0, 1e4):
        np.testing.assert_array_equal(softmax(np.full(4, height)), np.full(4, 0.25))


def test_a_score_that_is_not_a_number_spoils_its_whole_row_and_no_other() -> None:
    x = np.array([[np.nan, 5.0], [0.0, 0.0]])
    assert np.isnan(softmax(x)[0]).all()
    assert np.isnan(log_softmax(x)[0]).all()
    assert np.isnan(logsumexp(x)[0])
    np.testing.assert_array_equal(softmax(x)[1], [0.5, 0.5])
