from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pellucid.maths import keep_top_k, keep_top_p, softmax

FEW = settings(max_examples=50, deadline=None)
LOGITS = arrays(np.float64, (2, 6), elements=st.floats(-8, 8))


@FEW
@given(logits=LOGITS, k=st.integers(1, 8))
def test_top_k_keeps_the_k_largest_and_their_ties_unchanged(logits: np.ndarray, k: int) -> None:
    kept = keep_top_k(logits, k)
    for before, after in zip(logits, kept, strict=True):
        stays = np.isfinite(after)
        least = np.sort(before)[-min(k, before.size)]
        np.testing.assert_array_equal(stays, before >= least)
        np.testing.assert_array_equal(after[stays], before[stays])


@FEW
@given(logits=LOGITS, p=st.floats(0.01, 1.0))
def test_top_p_keeps_the_smallest_set_that_reaches_p(logits: np.ndarray, p: float) -> None:
    kept = keep_top_p(logits, p)
    for row, before, after in zip(softmax(logits), logits, kept, strict=True):
        stays = np.isfinite(after)
        np.testing.assert_array_equal(after[stays], before[stays])
        assert stays.any()
        assert row[stays].sum() >= p - 1e-9
        assert row[stays].sum() - row[stays].min() < p + 1e-9
        if not stays.all():
            assert row[stays].min() >= row[~stays].max()


def test_top_p_of_nearly_nothing_leaves_the_likeliest_token() -> None:
    kept = keep_top_p(np.array([1.0, 3.0, 2.0]), 1e-6)
    np.testing.assert_array_equal(kept, [-np.inf, 3.0, -np.inf])


def test_tokens_that_may_not_be_drawn_are_not_let_in_again() -> None:
    logits = np.array([0.0, -np.inf, 1.0, -np.inf])
    for kept in (keep_top_k(logits, 3), keep_top_p(logits, 0.99), keep_top_p(logits, 1.0)):
        np.testing.assert_array_equal(np.isfinite(kept), [True, False, True, False])
