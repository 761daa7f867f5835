from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrizations

from pellucid.maths import (
    power_iteration,
    spectral_norm,
    spectral_norm_grad,
    weight_norm,
    weight_norm_grad,
)

FEW_EXAMPLES = settings(max_examples=30)
RANDOM = np.random.default_rng(8)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), stretch=st.floats(1e-3, 1e3))
def test_rows_have_the_length_of_their_gain_whatever_that_of_v(seed: int, stretch: float) -> None:
    random = np.random.default_rng(seed)
    v, gain = random.normal(size=(3, 4)), random.normal(size=3)
    w = weight_norm(v, gain)
    np.testing.assert_allclose(np.linalg.norm(w, axis=-1), np.abs(gain), rtol=1e-12)
    np.testing.assert_allclose(weight_norm(stretch * v, gain), w, rtol=1e-12)
    dv, _ = weight_norm_grad(v, gain, random.normal(size=(3, 4)))
    np.testing.assert_allclose((dv * v).sum(-1), 0.0, atol=1e-12)


def test_weight_norm_is_that_of_torch() -> None:
    linear = parametrizations.weight_norm(nn.Linear(4, 3, dtype=torch.float64))
    stored = linear.parametrizations.weight
    gain, v = stored.original0.detach().numpy()[:, 0], stored.original1.detach().numpy()
    own_weight = weight_norm(v, gain)
    np.testing.assert_allclose(own_weight, linear.weight.detach().numpy(), rtol=1e-12)


def svd(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    u, s, vt = np.linalg.svd(matrix)
    return u[:, 0], s, vt[0]


def test_power_iteration_finds_the_directions_of_the_largest_singular_value() -> None:
    w = RANDOM.normal(size=(4, 6))
    u, v = power_iteration(w, RANDOM.normal(size=4), steps=500)
    u_best, s, v_best = svd(w)
    np.testing.assert_allclose(np.abs([u @ u_best, v @ v_best]), 1.0, rtol=1e-10)
    normed = spectral_norm(w, u, v)
    np.testing.assert_allclose(np.linalg.svd(normed)[1], s / s[0], rtol=1e-8)


def test_power_iteration_of_a_batch_is_that_of_each_matrix() -> None:
    w, u = RANDOM.normal(size=(2, 4, 6)), RANDOM.normal(size=(2, 4))
    batched_vectors = power_iteration(w, u, steps=3)
    for index in range(2):
        single_vectors = power_iteration(w[index], u[index], steps=3)
        np.testing.assert_allclose(batched_vectors[0][index], single_vectors[0], rtol=1e-12)
        np.testing.assert_allclose(batched_vectors[1][index], single_vectors[1], rtol=1e-12)


def test_no_step_is_refused() -> None:
    with pytest.raises(ValueError, match="0 steps of power iteration; at least 1 is needed"):
        power_iteration(np.eye(2), np.ones(2), steps=0)


def test_gradient_at_the_singular_directions_is_that_of_the_norm_itself() -> None:
    """Held constant or not, u and v do not change sigma to first order."""
    w, grad = RANDOM.normal(size=(2, 4, 6))
    u, _, v = svd(w)
    tensor = torch.from_numpy(w).requires_grad_()
    (tensor / torch.linalg.matrix_norm(tensor, ord=2)).backward(torch.from_numpy(grad))
    hand_gradient = spectral_norm_grad(w, u, v, grad)
    np.testing.assert_allclose(hand_gradient, tensor.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_spectral_norm_is_that_of_torch() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        linear = parametrizations.spectral_norm(nn.Linear(6, 4, dtype=torch.float64))
    stored = linear.parametrizations.weight
    w = stored.original.detach().numpy()
    u = stored[0]._u.numpy().copy()
    torch_weight = linear.weight.detach().numpy()  # in training: one more step of iteration first
    u, v = stored[0]._u.numpy(), stored[0]._v.numpy()
    np.testing.assert_allclose(spectral_norm(w, u, v), torch_weight, rtol=1e-12)
