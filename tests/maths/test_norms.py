from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from pellucid import maths
from pellucid.maths import (
    batch_norm,
    group_norm,
    group_norm_grad,
    instance_norm,
    instance_norm_grad,
    layer_norm,
    layer_norm_grad,
    rms_norm,
    rms_norm_grad,
)

FEW_EXAMPLES = settings(max_examples=30)
RANDOM = np.random.default_rng(5)
X, GAIN, BIAS = RANDOM.normal(size=(2, 5, 6)), RANDOM.normal(size=6), RANDOM.normal(size=6)
T = torch.from_numpy
EPS = 1e-5


def features_first(norm: Callable[..., torch.Tensor], *arguments: Any, **options: Any) -> Any:
    """A norm of torch that wants (batch, features, time)."""
    features_last = T(X).transpose(1, 2)
    return norm(features_last, *arguments, **options, eps=EPS).transpose(1, 2)


THEIRS: dict[str, tuple[Any, Any]] = {
    "layer": (
        layer_norm(X, GAIN, BIAS, eps=EPS),
        F.layer_norm(T(X), (6,), T(GAIN), T(BIAS), EPS),
    ),
    "rms": (rms_norm(X, GAIN, eps=EPS), F.rms_norm(T(X), (6,), T(GAIN), EPS)),
    "group": (
        group_norm(X, GAIN, BIAS, n_groups=3, eps=EPS),
        F.group_norm(T(X).reshape(10, 6), 3, T(GAIN), T(BIAS), EPS).reshape(2, 5, 6),
    ),
    "instance": (
        instance_norm(X, GAIN, BIAS, eps=EPS),
        features_first(F.instance_norm, weight=T(GAIN), bias=T(BIAS)),
    ),
}


@pytest.mark.parametrize("name", THEIRS)
def test_it_is_what_torch_says(name: str) -> None:
    own_result, torch_result = THEIRS[name]
    np.testing.assert_allclose(own_result, torch_result.numpy(), rtol=1e-10, atol=1e-12)


def test_one_group_is_a_layer_norm() -> None:
    np.testing.assert_allclose(
        group_norm(X, GAIN, BIAS, n_groups=1, eps=EPS),
        layer_norm(X, GAIN, BIAS, eps=EPS),
        rtol=1e-14,
    )


def test_of_one_sequence_batch_norm_is_instance_norm() -> None:
    np.testing.assert_allclose(
        batch_norm(X[:1], GAIN, BIAS, eps=EPS),
        instance_norm(X[:1], GAIN, BIAS, eps=EPS),
        rtol=1e-12,
    )


#: Which tokens a token's norm depends on: changed tokens, and tokens that must stay.
ALONE = [
    lambda x: layer_norm(x, GAIN, BIAS, eps=EPS),
    lambda x: rms_norm(x, GAIN, eps=EPS),
    lambda x: group_norm(x, GAIN, BIAS, n_groups=2, eps=EPS),
]


@pytest.mark.parametrize("norm", ALONE, ids=["layer", "rms", "group"])
def test_no_token_sees_another(norm: Callable[[np.ndarray], np.ndarray]) -> None:
    other = X.copy()
    other[0, 2] += 1.0
    is_changed = (norm(other) != norm(X)).any(-1)
    assert is_changed.sum() == 1
    assert is_changed[0, 2]


def test_instances_do_not_see_each_other_but_tokens_do() -> None:
    other = X.copy()
    other[0, 4] += 1.0
    is_changed = (
        instance_norm(other, GAIN, BIAS, eps=EPS) != instance_norm(X, GAIN, BIAS, eps=EPS)
    ).any(-1)
    assert is_changed[0].all()
    assert not is_changed[1].any()


@FEW_EXAMPLES
@given(scale=st.floats(0.1, 1e3), shift=st.floats(-10, 10))
def test_scale_and_shift_of_the_input_are_forgotten(scale: float, shift: float) -> None:
    own_result = layer_norm(scale * X + shift, GAIN, BIAS, eps=0.0)
    np.testing.assert_allclose(own_result, layer_norm(X, GAIN, BIAS, eps=0.0), rtol=1e-8, atol=1e-9)
    own_result = rms_norm(scale * X, GAIN, eps=0.0)
    np.testing.assert_allclose(own_result, rms_norm(X, GAIN, eps=0.0), rtol=1e-12)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99))
def test_nothing_reaches_the_input_along_what_the_norm_forgets(seed: int) -> None:
    """Without eps the gradient is at right angles to x, and where the mean is taken off, to 1."""
    grad = np.random.default_rng(seed).normal(size=X.shape)
    dx = layer_norm_grad(X, GAIN, grad, eps=0.0)[0]
    np.testing.assert_allclose((dx * X).sum(-1), 0.0, atol=1e-10)
    np.testing.assert_allclose(dx.sum(-1), 0.0, atol=1e-10)
    dx = rms_norm_grad(X, GAIN, grad, eps=0.0)[0]
    np.testing.assert_allclose((dx * X).sum(-1), 0.0, atol=1e-10)
    dx = instance_norm_grad(X, GAIN, grad, eps=0.0)[0]
    np.testing.assert_allclose((dx * X).sum(1), 0.0, atol=1e-10)
    dx = group_norm_grad(X, GAIN, grad, n_groups=2, eps=0.0)[0]
    np.testing.assert_allclose(dx.reshape(2, 5, 2, 3).sum(-1), 0.0, atol=1e-10)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), scale=st.floats(0.1, 100), shift=st.floats(-50, 50))
def test_what_comes_out_has_the_moments_that_are_claimed(
    seed: int, scale: float, shift: float
) -> None:
    x = np.random.default_rng(seed).normal(size=(3, 5, 8)) * scale + shift
    unit_gain, zero, options = np.ones(8), np.zeros(8), {"eps": 0.0}
    grouped = maths.group_norm(x, unit_gain, zero, n_groups=2, **options).reshape(3, 5, 2, 4)
    for y, axes in (
        (maths.layer_norm(x, unit_gain, zero, **options), -1),
        (grouped, -1),
        (maths.instance_norm(x, unit_gain, zero, **options), -2),
        (maths.batch_norm(x, unit_gain, zero, **options), (0, 1)),
    ):
        np.testing.assert_allclose(y.mean(axes), 0, atol=1e-9)
        np.testing.assert_allclose(y.var(axes), 1, rtol=1e-9)
    np.testing.assert_allclose(
        (maths.rms_norm(x, unit_gain, **options) ** 2).mean(-1), 1, rtol=1e-12
    )
