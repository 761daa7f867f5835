"""Identities of parts and steps: activations, penalties, self-attention, preference, optimisers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.nn import functional as F

from pellucid import maths

FEW_EXAMPLES = settings(max_examples=30)
NUMBERS = arrays(np.float64, 7, elements=st.floats(-50, 50))
RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (maths.relu, F.relu),
        (maths.gelu, F.gelu),
        (maths.gelu_tanh, lambda x: F.gelu(x, approximate="tanh")),
        (maths.quick_gelu, lambda x: F.silu(1.702 * x) / 1.702),
        (maths.tanh, torch.tanh),
        (maths.silu, F.silu),
        (maths.sigmoid, torch.sigmoid),
        (maths.softplus, F.softplus),
    ],
)
def test_activations_are_those_of_torch(ours: Callable[..., Any], theirs: Any) -> None:
    x = np.linspace(-12, 12, 1001)
    np.testing.assert_allclose(ours(x), theirs(torch.from_numpy(x)), rtol=1e-8, atol=1e-14)


def test_error_function_is_exact_to_fifteen_digits() -> None:
    x = np.concatenate([np.linspace(-7, 7, 20_001), [0.0, 1e-300, 1e-9, 2.0, np.nextafter(2, 0)]])
    truth = np.array([math.erf(number) for number in x])
    np.testing.assert_allclose(maths.erf(x), truth, rtol=1e-15, atol=0)


@FEW_EXAMPLES
@given(x=arrays(np.float64, (3, 5), elements=st.floats(-20, 20)), shift=st.floats(-100, 100))
def test_rows_and_columns_of_softmaxs_jacobian_sum_to_zero(x: np.ndarray, shift: float) -> None:
    jacobian = maths.softmax_jacobian(x)
    np.testing.assert_allclose(jacobian.sum(-1), 0, atol=1e-15)
    np.testing.assert_allclose(jacobian, jacobian.swapaxes(-1, -2), atol=1e-16)
    np.testing.assert_allclose(maths.softmax_jacobian(x + shift), jacobian, atol=1e-12)
    v = RANDOM.normal(size=x.shape)
    product = (jacobian @ v[..., None])[..., 0]
    np.testing.assert_allclose(maths.softmax_jacobian_product(x, v), product, atol=1e-14)


@FEW_EXAMPLES
@given(x=arrays(np.float64, (3, 5), elements=st.floats(-20, 20)), temperature=st.floats(0.1, 10))
def test_every_form_of_cross_entropy_gives_the_same(x: np.ndarray, temperature: float) -> None:
    targets = np.array([0, 4, 2])
    loss = maths.cross_entropy(x, targets)
    tolerance = {"rtol": 1e-9, "atol": 1e-12}
    p = maths.softmax(x)
    np.testing.assert_allclose(
        maths.cross_entropy_from_probabilities(p, targets), loss, **tolerance
    )
    np.testing.assert_allclose(maths.soft_cross_entropy(x, np.eye(5)[targets]), loss, **tolerance)
    np.testing.assert_allclose(maths.focal_loss(x, targets, gamma=0.0), loss, **tolerance)
    np.testing.assert_allclose(-maths.sequence_log_likelihood(x, targets), loss.sum(), **tolerance)
    np.testing.assert_allclose(maths.language_model_loss(x, targets), loss.mean(), **tolerance)
    two = np.stack([np.zeros(3), x[:, 0]], -1)
    yes = maths.binary_cross_entropy_from_logits(x[:, 0], np.ones(3))
    np.testing.assert_allclose(yes, maths.cross_entropy(two, np.ones(3, dtype=int)), **tolerance)
    hot = maths.softmax(x, temperature=temperature)
    np.testing.assert_allclose(hot, maths.softmax(x / temperature), rtol=1e-12)


def test_uniform_guess_over_k_tokens_has_perplexity_k() -> None:
    loss = maths.language_model_loss(np.zeros((3, 50)), np.array([0, 7, 49]))
    assert maths.perplexity(float(loss)) == pytest.approx(50, rel=1e-14)
    assert maths.perplexity(1e6) == math.inf


@FEW_EXAMPLES
@given(w=NUMBERS, strength=st.floats(0, 5), step=st.floats(0.01, 2))
def test_proximal_step_of_l1_is_the_soft_threshold_and_the_minimum(
    w: np.ndarray, strength: float, step: float
) -> None:
    u = maths.l1_prox(w, strength=strength, step=step)
    cut = step * strength
    by_hand = np.where(w > cut, w - cut, np.where(w < -cut, w + cut, 0))
    np.testing.assert_allclose(u, by_hand, atol=1e-14)
    assert (u[np.abs(w) <= cut] == 0).all()

    def price(v: np.ndarray) -> float:
        return ((v - w) ** 2).sum() / 2 + step * maths.l1_penalty(v, strength=strength)

    for _ in range(5):
        assert price(u) <= price(u + RANDOM.normal(size=7) * 0.1) + 1e-12


@FEW_EXAMPLES
@given(w=NUMBERS, l1=st.floats(0, 2), l2=st.floats(0, 2))
def test_proximal_step_of_the_elastic_net_is_the_minimum(
    w: np.ndarray, l1: float, l2: float
) -> None:
    u = maths.elastic_net_prox(w, l1=l1, l2=l2, step=0.7)

    def price(v: np.ndarray) -> float:
        return ((v - w) ** 2).sum() / 2 + 0.7 * maths.elastic_net_penalty(v, l1=l1, l2=l2)

    for _ in range(5):
        assert price(u) <= price(u + RANDOM.normal(size=7) * 0.1) + 1e-10


def test_heads_are_those_of_torch() -> None:
    torch_attention = torch.nn.MultiheadAttention(
        8, 2, bias=False, batch_first=True, dtype=torch.float64
    )
    x, context = torch.randn(2, 3, 8).double(), torch.randn(2, 5, 8).double()
    packed = torch_attention.in_proj_weight.detach()
    mask = torch.rand(3, 5) < 0.7
    mask[:, 0] = True
    own_result = maths.multi_head_attention(
        x, context, *packed.chunk(3), torch_attention.out_proj.weight.detach(), n_heads=2, mask=mask
    )
    expected = torch_attention(x, context, context, attn_mask=~mask, need_weights=False)[0]
    torch.testing.assert_close(own_result, expected.detach())


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_entropy_from_log_z_is_that_of_the_shares_and_log_z_brackets_the_largest(
    seed: int, scale: float
) -> None:
    random = np.random.default_rng(seed)
    q, k = random.normal(size=(2, 3, 4)) * scale, random.normal(size=(2, 5, 4))
    mask = random.random((3, 5)) < 0.6
    mask[0] = False
    weights = maths.attention_weights(q, k, mask=mask)
    by_hand = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1)
    entropy = maths.attention_entropy(q, k, mask=mask)
    np.testing.assert_allclose(entropy, by_hand, atol=1e-12)
    assert not entropy[:, 0].any()
    scores = np.where(mask, q @ k.swapaxes(-1, -2) / 2, -np.inf)
    log_z = maths.attention_logsumexp(q, k, mask=mask)
    counts = np.maximum(np.broadcast_to(mask.sum(-1), log_z.shape), 1)
    low, high = maths.largest_score_bounds(log_z, counts)
    assert (low <= scores.max(-1) + 1e-12).all()
    assert (scores.max(-1) <= high + 1e-12).all()


def test_no_policy_earns_more_than_the_closed_form() -> None:
    reference, reward = maths.softmax(RANDOM.normal(size=6)), RANDOM.normal(size=6)
    best = maths.regularised_reward_optimum(reference, reward, beta=0.3)
    best_value = maths.regularised_reward(best, reference, reward, beta=0.3)
    gradient = maths.regularised_reward_grad(best, reference, reward, beta=0.3)
    np.testing.assert_allclose(gradient, gradient[0], rtol=1e-12)
    for _ in range(50):
        other = maths.softmax(np.log(best) + RANDOM.normal(size=6) * 0.3)
        assert maths.regularised_reward(other, reference, reward, beta=0.3) <= best_value


def test_dpos_margin_is_the_reward_that_the_optimum_was_made_of() -> None:
    reference, reward = maths.softmax(RANDOM.normal(size=6)), RANDOM.normal(size=6)
    policy = np.log(maths.regularised_reward_optimum(reference, reward, beta=0.3))
    margin = maths.dpo_margin(
        policy[[0]], policy[[1]], np.log(reference[[0]]), np.log(reference[[1]]), beta=0.3
    )
    np.testing.assert_allclose(margin, reward[[0]] - reward[[1]], rtol=1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            lambda w, g, _, __: (maths.sgd_step(w, g, learning_rate=0.1), None),
            lambda p: torch.optim.SGD(p, lr=0.1),
        ),
        (
            lambda w, g, v, _: maths.momentum_step(w, g, v, learning_rate=0.1, momentum=0.9),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        ),
    ],
)
def test_steps_are_those_of_torch(ours: Callable[..., Any], theirs: Callable[..., Any]) -> None:
    w, state = RANDOM.normal(size=4), np.zeros(4)
    parameter = torch.nn.Parameter(torch.from_numpy(w.copy()))
    optimiser = theirs([parameter])
    for step in range(5):
        grad = RANDOM.normal(size=4)
        w, state = ours(w, grad, state, step)
        parameter.grad = torch.from_numpy(grad)
        optimiser.step()
    np.testing.assert_allclose(w, parameter.detach().numpy(), rtol=1e-12)


def test_adam_with_l2_is_that_of_torch_and_not_adamw() -> None:
    w, m, v = RANDOM.normal(size=4), np.zeros(4), np.zeros(4)
    parameter = torch.nn.Parameter(torch.from_numpy(w.copy()))
    torch_adam = torch.optim.Adam([parameter], lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)
    options = {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
    for step in range(1, 6):
        grad = RANDOM.normal(size=4)
        decoupled = maths.adamw_step(w, grad, m, v, step=step, weight_decay=0.1, **options)[0]
        w, m, v = maths.adam_step(w, grad, m, v, step=step, l2=0.1, **options)
        assert np.abs(decoupled - w).max() > 1e-6
        parameter.grad = torch.from_numpy(grad)
        torch_adam.step()
    np.testing.assert_allclose(w, parameter.detach().numpy(), rtol=1e-12)


def test_published_table_of_adamw_is_reproduced(shared_data: Path) -> None:
    """Its eps comes before the correction of the variance: ours divided by sqrt(1 - beta2^t)."""
    file = shared_data / "reference-vectors" / "adamw.json"
    table = json.loads(file.read_text())["keras_golden"]
    (beta1, beta2), w = table["betas"], np.array(table["x0"])
    m, v = np.zeros(10), np.zeros(10)
    for step, expected in enumerate(table["params_after_each_step"], 1):
        grad = np.array(table["grad_step1" if step == 1 else "grad_steps_2_to_5"])
        w, m, v = maths.adamw_step(
            w,
            grad,
            m,
            v,
            step=step,
            learning_rate=table["lr"],
            beta1=beta1,
            beta2=beta2,
            eps=table["eps"] / math.sqrt(1 - beta2**step),
            weight_decay=table["weight_decay"],
        )
        np.testing.assert_allclose(w, expected, atol=table["tolerance"])


def test_published_cosine_is_reproduced_down_to_its_lowest_point(shared_data: Path) -> None:
    """Torchtune's goes up again after half its cycle, where ours stays."""
    file = shared_data / "reference-vectors" / "lr_schedule.json"
    table = json.loads(file.read_text())["torchtune_cosine"]
    half = (table["total"] - table["warmup"]) // 2 + table["warmup"]
    for step, expected in table["step_to_lr"].items():
        if int(step) <= half:
            own_factor = maths.cosine(int(step), warm_up=table["warmup"], total=half, final=0.0)
            assert own_factor * table["lr"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("std", "predicted"), [(1 / math.sqrt(512), 1.0), (0.02, 512 * 0.0004)])
def test_predicted_variance_is_that_of_a_drawn_layer(std: float, predicted: float) -> None:
    x, w = RANDOM.normal(size=(200, 512)), RANDOM.normal(size=(400, 512)) * std
    assert maths.linear_variance(1.0, n_in=512, std=std) == pytest.approx(predicted)
    assert (x @ w.T).var() == pytest.approx(predicted, rel=0.05)


def test_the_jacobian_of_a_residual_has_any_number_of_axes_before_it() -> None:
    jacobian = np.zeros((2, 5, 3, 3))
    np.testing.assert_array_equal(
        maths.residual_jacobian(jacobian), np.broadcast_to(np.eye(3), jacobian.shape)
    )
