"""Counts and shares against values worked out by hand, and against scikit-learn where it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid import maths
from pellucid.errors import MathsError

COUNTS = np.array([[8.0, 2.0, 0.0], [1.0, 6.0, 1.0], [0.0, 0.0, 2.0]])


def one_hot(classes: np.ndarray, n: int = 3) -> np.ndarray:
    return np.eye(n)[classes]


def test_counts_have_a_row_for_what_came_and_a_column_for_what_was_said() -> None:
    labels, answers = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0])
    counts = maths.confusion_matrix(one_hot(labels), one_hot(answers))
    np.testing.assert_array_equal(counts, [[1, 1, 0], [0, 1, 0], [1, 0, 0]])


def test_shares_of_a_matrix_are_those_worked_out_by_hand() -> None:
    assert maths.accuracy(COUNTS) == 16 / 20
    np.testing.assert_allclose(maths.precision_score(COUNTS), [8 / 9, 6 / 8, 2 / 3])
    np.testing.assert_allclose(maths.recall_score(COUNTS), [8 / 10, 6 / 8, 1])
    np.testing.assert_allclose(maths.f1_score(COUNTS), [16 / 19, 3 / 4, 4 / 5])


def test_f1_is_the_harmonic_mean_of_precision_and_recall() -> None:
    precision, recall = maths.precision_score(COUNTS), maths.recall_score(COUNTS)
    np.testing.assert_allclose(maths.f1_score(COUNTS), 2 / (1 / precision + 1 / recall))


def test_a_class_that_never_came_and_was_never_said_has_zero() -> None:
    counts = np.array([[3.0, 0.0], [0.0, 0.0]])
    for share in (maths.precision_score, maths.recall_score, maths.f1_score):
        np.testing.assert_array_equal(share(counts), [1, 0])


def test_the_calibration_error_is_the_one_worked_out_by_hand() -> None:
    sure = np.array([0.95, 0.85, 0.75, 0.55, 0.5, 0.1])
    right = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    share, confidence, hit = maths.calibration_bins(sure, right, n_bins=2)
    np.testing.assert_allclose(share, [2 / 6, 4 / 6])  # .5 is the end of the first bin
    np.testing.assert_allclose(confidence, [0.3, 0.775])
    np.testing.assert_allclose(hit, [0, 0.75])
    error = maths.expected_calibration_error(sure, right, n_bins=2)
    np.testing.assert_allclose(error, 2 / 6 * 0.3 + 4 / 6 * 0.025)


@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 10**6))
def test_every_answer_is_in_one_bin_and_one_bin_compares_the_means(
    n: int, n_bins: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    sure, right = random.integers(0, 11, n) / 10, random.integers(0, 2, n).astype(float)
    share, confidence, hit = maths.calibration_bins(sure, right, n_bins=n_bins)
    np.testing.assert_allclose(share.sum(), 1)
    np.testing.assert_allclose((share * confidence).sum(), sure.mean())
    np.testing.assert_allclose((share * hit).sum(), right.mean())
    error_of_one = maths.expected_calibration_error(sure, right, n_bins=1)
    error_of_many = maths.expected_calibration_error(sure, right, n_bins=n_bins)
    np.testing.assert_allclose(error_of_one, abs(sure.mean() - right.mean()))
    assert error_of_many >= error_of_one - 1e-12


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: maths.accuracy(np.ones((2, 3))), "must be"),
        (lambda: maths.f1_score(-COUNTS), "at least 0"),
        (lambda: maths.f1_score(np.eye(3, dtype=int)), "must be floating"),
        (lambda: maths.confusion_matrix(np.eye(3), np.eye(2)), "must be the shape of y"),
        (lambda: maths.calibration_bins(np.zeros(0), np.zeros(0), n_bins=3), "number of answers"),
        (lambda: maths.calibration_bins(np.ones(2) * 1.5, np.ones(2), n_bins=3), "between 0 and 1"),
        (lambda: maths.calibration_bins(np.ones(2), np.ones(2), n_bins=0), "n_bins"),
    ],
)
def test_what_is_no_matrix_of_counts_or_no_share_is_refused(call: object, said: str) -> None:
    with pytest.raises(MathsError, match=said):
        call()  # type: ignore[operator]


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(5))
def test_shares_are_those_of_scikit_learn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(seed)
    labels, answers = random.integers(0, 4, 50), random.integers(0, 4, 50)
    counts = maths.confusion_matrix(one_hot(labels, 4), one_hot(answers, 4))
    np.testing.assert_array_equal(
        counts, metrics.confusion_matrix(labels, answers, labels=range(4))
    )
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        labels, answers, labels=range(4)
    )
    np.testing.assert_allclose(maths.precision_score(counts), precision)
    np.testing.assert_allclose(maths.recall_score(counts), recall)
    np.testing.assert_allclose(maths.f1_score(counts), f1)
    np.testing.assert_allclose(
        maths.accuracy(counts), metrics.f1_score(labels, answers, average="micro")
    )
