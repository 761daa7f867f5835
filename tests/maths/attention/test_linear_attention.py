from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.maths import (
    elu_features,
    linear_attention,
    linear_attention_grad,
    linear_attention_in_chunks,
    linear_attention_step,
)

FEW_EXAMPLES = settings(max_examples=30)
EPS = 1e-6


def random_qkv(seed: int, time: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q, k = elu_features(np.random.default_rng(seed).normal(size=(2, 2, time, 3)))
    return q, k, np.random.default_rng(seed + 1).normal(size=(2, time, 4))


def by_scores(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    """The same by the matrix of all products, which linear attention never forms."""
    scores = q @ k.swapaxes(-1, -2)
    scores = np.tril(scores) if causal else scores
    return scores @ v / (scores.sum(-1, keepdims=True) + EPS)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), time=st.integers(1, 9), causal=st.booleans())
def test_it_is_attention_with_products_of_features_for_scores(
    seed: int, time: int, causal: bool
) -> None:
    q, k, v = random_qkv(seed, time)
    own_result = linear_attention(q, k, v, eps=EPS, causal=causal)
    np.testing.assert_allclose(own_result, by_scores(q, k, v, causal), rtol=1e-9, atol=1e-12)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), time=st.integers(1, 9), chunk=st.integers(1, 10))
def test_all_causal_forms_are_equal(seed: int, time: int, chunk: int) -> None:
    q, k, v = random_qkv(seed, time)
    in_parallel = linear_attention(q, k, v, eps=EPS, causal=True)
    in_chunks = linear_attention_in_chunks(q, k, v, eps=EPS, chunk=chunk)
    np.testing.assert_allclose(in_chunks, in_parallel, rtol=1e-10, atol=1e-12)
    state, normaliser = np.zeros((2, 3, 4)), np.zeros((2, 3))
    for t in range(time):
        state, normaliser, o = linear_attention_step(
            state, normaliser, q[:, t], k[:, t], v[:, t], eps=EPS
        )
        np.testing.assert_allclose(o, in_parallel[:, t], rtol=1e-10, atol=1e-12)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), time=st.integers(2, 9))
def test_no_gradient_comes_from_the_future_and_the_last_token_sees_all(
    seed: int, time: int
) -> None:
    q, k, v = random_qkv(seed, time)
    causal = linear_attention(q, k, v, eps=EPS, causal=True)
    everywhere = linear_attention(q, k, v, eps=EPS, causal=False)
    np.testing.assert_allclose(causal[:, -1], everywhere[:, -1], rtol=1e-10, atol=1e-12)
    grad = np.zeros_like(v)
    grad[:, 0] = 1.0  # asked of the first token alone
    for reaches in linear_attention_grad(q, k, v, grad, eps=EPS, causal=True):
        assert not reaches[:, 1:].any()


@pytest.mark.parametrize("n_queries", [2, 5])
def test_gradient_where_nothing_is_causal_is_that_of_autograd(n_queries: int) -> None:
    q, k, v = random_qkv(3, 5)
    arrays, grad = (q[:, :n_queries].copy(), k, v), np.random.default_rng(4).normal(size=v.shape)
    grad = grad[:, :n_queries]
    tensors = [torch.from_numpy(x).requires_grad_() for x in arrays]
    linear_attention(*tensors, eps=EPS, causal=False).backward(torch.from_numpy(grad))
    hands = linear_attention_grad(*arrays, grad, eps=EPS, causal=False)
    for hand_gradient, tensor in zip(hands, tensors, strict=True):
        np.testing.assert_allclose(hand_gradient, tensor.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_queries_and_keys_may_differ_in_number_where_nothing_is_causal() -> None:
    q, k, v = random_qkv(0, 5)
    own_result = linear_attention(q[:, :2], k, v, eps=EPS, causal=False)
    np.testing.assert_allclose(own_result, by_scores(q, k, v, causal=False)[:, :2], rtol=1e-10)
    grads = linear_attention_grad(q[:, :2], k, v, np.ones((2, 2, 4)), eps=EPS, causal=False)
    assert [grad.shape for grad in grads] == [(2, 2, 3), (2, 5, 3), (2, 5, 4)]


def test_features_are_positive_and_smooth_at_zero() -> None:
    x = np.array([-30.0, -1e-9, 0.0, 1e-9, 1e6])
    y = elu_features(x)
    assert (y > 0).all()
    assert y[1:4] == pytest.approx([1.0, 1.0, 1.0], abs=1e-8)
    assert y[-1] == 1e6 + 1
