from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pellucid.maths import keep_min_p, keep_top_k, keep_top_p, repetition_penalty, softmax

FEW_EXAMPLES = settings(max_examples=50)
LOGITS = arrays(np.float64, (2, 6), elements=st.floats(-8, 8))


@FEW_EXAMPLES
@given(logits=LOGITS, k=st.integers(1, 8))
def test_top_k_keeps_the_k_largest_and_their_ties_unchanged(logits: np.ndarray, k: int) -> None:
    filtered = keep_top_k(logits, k)
    for before, after in zip(logits, filtered, strict=True):
        stays = np.isfinite(after)
        least = np.sort(before)[-min(k, before.size)]
        np.testing.assert_array_equal(stays, before >= least)
        np.testing.assert_array_equal(after[stays], before[stays])


@FEW_EXAMPLES
@given(logits=LOGITS, p=st.floats(0.01, 1.0))
def test_top_p_keeps_the_smallest_set_that_reaches_p(logits: np.ndarray, p: float) -> None:
    filtered = keep_top_p(logits, p)
    for row, before, after in zip(softmax(logits), logits, filtered, strict=True):
        stays = np.isfinite(after)
        np.testing.assert_array_equal(after[stays], before[stays])
        assert stays.any()
        assert row[stays].sum() >= p - 1e-9
        assert row[stays].sum() - row[stays].min() < p + 1e-9
        if not stays.all():
            assert row[stays].min() >= row[~stays].max()


def test_top_p_of_nearly_nothing_leaves_the_likeliest_token() -> None:
    filtered = keep_top_p(np.array([1.0, 3.0, 2.0]), 1e-6)
    np.testing.assert_array_equal(filtered, [-np.inf, 3.0, -np.inf])


def test_tokens_that_may_not_be_drawn_are_not_let_in_again() -> None:
    logits = np.array([0.0, -np.inf, 1.0, -np.inf])
    filtered = (
        keep_top_k(logits, 3),
        keep_top_p(logits, 0.99),
        keep_top_p(logits, 1.0),
        keep_min_p(logits, 1e-9),
        repetition_penalty(logits, np.array([True, True, False, False]), 2.0),
    )
    for row in filtered:
        np.testing.assert_array_equal(np.isfinite(row), [True, False, True, False])


@FEW_EXAMPLES
@given(logits=LOGITS, p=st.floats(0.001, 1.0))
def test_min_p_keeps_what_is_at_least_p_times_as_likely_as_the_likeliest(
    logits: np.ndarray, p: float
) -> None:
    filtered = keep_min_p(logits, p)
    for shares, before, after in zip(softmax(logits), logits, filtered, strict=True):
        stays = np.isfinite(after)
        np.testing.assert_array_equal(after[stays], before[stays])
        assert stays[before.argmax()]
        assert (shares[stays] >= p * shares.max() * (1 - 1e-12)).all()
        assert (shares[~stays] < p * shares.max() * (1 + 1e-12)).all()


@FEW_EXAMPLES
@given(logits=LOGITS, seen=arrays(np.bool_, (2, 6)), penalty=st.floats(1.0, 5.0))
def test_a_repetition_penalty_lowers_what_was_seen_and_nothing_else(
    logits: np.ndarray, seen: np.ndarray, penalty: float
) -> None:
    lowered = repetition_penalty(logits, seen, penalty)
    np.testing.assert_array_equal(lowered[~seen], logits[~seen])
    assert (lowered[seen] <= logits[seen]).all()
    # a penalty below 1 gives back what one above took
    np.testing.assert_allclose(repetition_penalty(lowered, seen, 1 / penalty), logits, atol=1e-12)


def test_a_repetition_penalty_divides_above_zero_and_multiplies_below() -> None:
    logits = np.array([3.0, -3.0, 3.0])
    lowered = repetition_penalty(logits, np.array([True, True, False]), 1.5)
    np.testing.assert_array_equal(lowered, [2.0, -4.5, 3.0])


def test_the_likeliest_token_stays_for_every_p() -> None:
    logits = np.array([[1.0, 3.0, 2.0], [5.0, -np.inf, 5.0]])
    is_kept = np.isfinite(keep_top_p(logits, 0.0))
    assert is_kept.sum(-1).tolist() == [1, 1]
    assert (np.where(is_kept, logits, -np.inf).max(-1) == logits.max(-1)).all()
    np.testing.assert_array_equal(keep_top_p(logits, 1e-9), keep_top_p(logits, 0.0))
