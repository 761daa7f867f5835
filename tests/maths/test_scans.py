from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.maths import linear_scan, linear_scan_grad

FEW_EXAMPLES = settings(max_examples=30)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), time=st.integers(1, 20), width=st.sampled_from([1, 3]))
def test_rounds_of_doubling_give_what_the_loop_gives(seed: int, time: int, width: int) -> None:
    random = np.random.default_rng(seed)
    decay, x = random.uniform(-1, 1, size=(2, time, width)), random.normal(size=(2, time, 3))
    h = start = random.normal(size=(2, 3))
    scanned = linear_scan(decay, x, start)
    for t in range(time):
        h = decay[:, t] * h + x[:, t]
        np.testing.assert_allclose(scanned[:, t], h, rtol=1e-9, atol=1e-12)


def test_without_decay_it_is_a_running_sum_and_with_all_of_it_what_came_in() -> None:
    x = np.arange(6.0)[:, None]
    all_ones, zeros = np.ones((6, 1)), np.zeros((6, 1))
    np.testing.assert_array_equal(linear_scan(all_ones, x, np.zeros(1)), np.cumsum(x)[:, None])
    np.testing.assert_array_equal(linear_scan(zeros, x, np.ones(1)), x)


def test_one_factor_for_all_features_gets_the_gradient_of_all() -> None:
    random = np.random.default_rng(0)
    decay, x, start = random.uniform(size=(4, 1)), random.normal(size=(4, 3)), np.zeros(3)
    grad = random.normal(size=(4, 3))
    d_decay, dx, d_start = linear_scan_grad(decay, x, start, grad)
    d_decay_each, dx_each, d_start_each = linear_scan_grad(
        np.repeat(decay, 3, axis=1), x, start, grad
    )
    np.testing.assert_allclose(d_decay, d_decay_each.sum(-1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(dx, dx_each, rtol=1e-12)
    np.testing.assert_allclose(d_start, d_start_each, rtol=1e-12)


def test_the_gradient_of_each_sequence_of_a_batch_is_its_own() -> None:
    random = np.random.default_rng(3)
    decay, x = random.uniform(size=(2, 5, 1)), random.normal(size=(2, 5, 3))
    start, grad = random.normal(size=(2, 3)), random.normal(size=(2, 5, 3))
    batched_grads = linear_scan_grad(decay, x, start, grad)
    for i in range(2):
        single_grads = linear_scan_grad(decay[i], x[i], start[i], grad[i])
        for single_grad, all_of_them in zip(single_grads, batched_grads, strict=True):
            np.testing.assert_allclose(all_of_them[i], single_grad, rtol=1e-12)
