from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from pellucid.maths import attention, attention_grad, attention_weights, soft_cap, soft_cap_grad

FEW_EXAMPLES = settings(max_examples=30)


def random_qkv(seed: int, queries: int, keys: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    shapes = ((2, queries, 4), (2, keys, 4), (2, keys, 3))
    q, k, v = (random.normal(size=shape) for shape in shapes)
    return q, k, v


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), queries=st.integers(1, 5), keys=st.integers(1, 5))
def test_it_is_what_torch_says(seed: int, queries: int, keys: int) -> None:
    q, k, v = random_qkv(seed, queries, keys)
    random = np.random.default_rng(seed)
    bias = random.normal(size=(queries, keys))
    mask = random.random(size=(queries, keys)) < 0.7
    mask[:, 0] = True
    own_result = attention(q, k, v, mask=mask, bias=bias)
    added = torch.from_numpy(np.where(mask, bias, -np.inf))
    torch_result = F.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), attn_mask=added
    )
    np.testing.assert_allclose(own_result, torch_result.numpy(), rtol=1e-10, atol=1e-12)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99))
def test_what_is_gathered_lies_between_the_values(seed: int) -> None:
    q, k, v = random_qkv(seed, 4, 5)
    mixed = attention(q, k, v)
    assert (mixed <= v.max(-2, keepdims=True) + 1e-12).all()
    assert (mixed >= v.min(-2, keepdims=True) - 1e-12).all()


@FEW_EXAMPLES
@given(seed=st.integers(0, 99))
def test_the_order_of_the_keys_does_not_matter(seed: int) -> None:
    q, k, v = random_qkv(seed, 4, 5)
    order = np.random.default_rng(seed).permutation(5)
    shuffled = attention(q, k[:, order], v[:, order])
    np.testing.assert_allclose(shuffled, attention(q, k, v), rtol=1e-10, atol=1e-12)


def test_a_query_that_sees_no_key_gathers_zero_and_passes_no_gradient() -> None:
    q, k, v = random_qkv(0, 2, 3)
    mask = np.array([[False] * 3, [True, False, True]])
    options: dict[str, Any] = {"mask": mask, "cap": 5.0}
    assert not attention(q, k, v, **options)[:, 0].any()
    grad = np.zeros((2, 2, 3))
    grad[:, 0] = 1.0
    for reaches in attention_grad(q, k, v, grad, **options):
        assert not reaches.any()
    tensors = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    mixed = attention(*tensors, mask=torch.from_numpy(mask), cap=5.0)
    mixed.backward(torch.from_numpy(grad))
    for tensor in tensors:
        assert not tensor.grad.any()  # false for nan too


def test_bias_is_added_after_the_cap() -> None:
    q, k, _ = random_qkv(0, 2, 3)
    weights = attention_weights(100 * q, k, bias=np.array([0.0, 0.0, -50.0]), cap=1.0)
    # a bias within the cap would leave the last key a share of at least e^-2 of another's
    assert (weights[..., 2] < 1e-15).all()


PARTS: dict[str, Any] = {
    "mask": np.tril(np.ones((4, 5), dtype=bool)),
    "bias": np.linspace(-1, 1, 5),
    "sink": np.array([0.5, -0.5]),
    "cap": 1.5,
}


@pytest.mark.parametrize("names", [(), *((name,) for name in PARTS), ("cap", "sink")])
def test_gradient_is_that_of_autograd_whichever_parts_there_are(names: tuple[str, ...]) -> None:
    arrays = random_qkv(1, 4, 5)
    options = {name: PARTS[name] for name in names}
    grad = np.random.default_rng(2).normal(size=(2, 4, 3))
    tensors = [torch.from_numpy(x).requires_grad_() for x in arrays]
    in_torch = {name: x if name == "cap" else torch.from_numpy(x) for name, x in options.items()}
    attention(*tensors, **in_torch).backward(torch.from_numpy(grad))
    for hand_gradient, tensor in zip(
        attention_grad(*arrays, grad, **options), tensors, strict=True
    ):
        np.testing.assert_allclose(hand_gradient, tensor.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_a_masked_key_changes_nothing() -> None:
    q, k, v = random_qkv(0, 2, 3)
    mask = np.array([True, True, False])
    before = attention(q, k, v, mask=mask)
    k[:, 2], v[:, 2] = 1e6, -1e6
    np.testing.assert_array_equal(attention(q, k, v, mask=mask), before)


def test_a_sink_takes_a_share_and_gives_nothing() -> None:
    q, k, v = random_qkv(0, 4, 5)
    sink = np.array([0.3, -1.0])
    weights = attention_weights(q, k, sink=sink)
    scores = q @ k.swapaxes(-1, -2) / 2
    total = np.exp(scores).sum(-1) + np.exp(sink)[:, None]
    np.testing.assert_allclose(weights, np.exp(scores) / total[..., None], rtol=1e-12)
    np.testing.assert_allclose(attention(q, k, v, sink=sink), weights @ v, rtol=1e-12)
    # a sink of -inf is none at all
    without_sink = attention(q, k, v, sink=np.array([-np.inf, -np.inf]))
    np.testing.assert_allclose(without_sink, attention(q, k, v), rtol=1e-12)


def test_a_sink_takes_all_where_no_key_is_seen() -> None:
    q, k, v = random_qkv(0, 4, 5)
    mixed = attention(q, k, v, mask=np.zeros((4, 5), dtype=bool), sink=np.zeros(2))
    assert not mixed.any()


@FEW_EXAMPLES
@given(x=st.floats(-1e6, 1e6), cap=st.floats(0.5, 100))
def test_a_cap_bounds_and_keeps_the_order_and_small_scores(x: float, cap: float) -> None:
    y = soft_cap(np.array([x, -x, x + 1.0, cap * 1e-6]), cap=cap)
    assert (np.abs(y) <= cap).all()
    assert y[0] == -y[1]
    assert y[2] >= y[0]
    assert y[3] == pytest.approx(cap * 1e-6, rel=1e-9)
    assert 0 <= soft_cap_grad(np.array(x), np.array(1.0), cap=cap) <= 1


@pytest.mark.parity
def test_cap_and_mask_are_those_of_gemma2() -> None:
    gemma2 = pytest.importorskip("transformers.models.gemma2.modeling_gemma2")
    q, k, v = (torch.from_numpy(x)[None] for x in random_qkv(0, 4, 5))
    mask = torch.tensor([[True, False, True, True, False]] * 4)
    module = torch.nn.Module()
    module.num_key_value_groups = 1
    module.head_dim = 4
    module.eval()
    reference_result, weights = gemma2.eager_attention_forward(
        module,
        q,
        k,
        v,
        torch.zeros(1, 1, 4, 5, dtype=torch.float64).masked_fill(~mask, -1e30),
        scaling=0.5,
        softcap=0.7,
    )
    np.testing.assert_allclose(
        attention(q, k, v, mask=mask, cap=0.7).transpose(1, 2), reference_result, rtol=1e-6
    )
    own_weights = attention_weights(q, k, mask=mask, cap=0.7)
    np.testing.assert_allclose(own_weights, weights, rtol=1e-6, atol=1e-12)


@pytest.mark.parity
def test_sink_is_that_of_gpt_oss() -> None:
    gpt_oss = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")
    q, k, v = (torch.from_numpy(x)[None] for x in random_qkv(0, 4, 5))
    module = torch.nn.Module()
    module.num_key_value_groups = 1
    module.sinks = torch.tensor([0.5, -2.0], dtype=torch.float64)
    module.eval()
    reference_result, _ = gpt_oss.eager_attention_forward(
        module, q, k, v, None, scaling=0.5, dropout=0.0
    )
    own_result = attention(q, k, v, sink=module.sinks)
    np.testing.assert_allclose(own_result.transpose(1, 2), reference_result, rtol=1e-10)
