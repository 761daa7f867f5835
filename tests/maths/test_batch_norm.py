from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pellucid.maths import batch_norm, batch_norm_inference, batch_norm_update

RANDOM = np.random.default_rng(6)
GAIN, BIAS = RANDOM.normal(size=4), RANDOM.normal(size=4)


def test_training_and_inference_are_those_of_torch_over_many_batches() -> None:
    torch_norm = nn.BatchNorm1d(4, eps=1e-5, momentum=0.1, dtype=torch.float64)
    with torch.no_grad():
        torch_norm.weight.copy_(torch.from_numpy(GAIN))
        torch_norm.bias.copy_(torch.from_numpy(BIAS))
    mean, var = np.zeros(4), np.ones(4)
    for _ in range(5):
        x = RANDOM.normal(size=(2, 3, 4)) * 3 + 1
        mean, var = batch_norm_update(mean, var, x, momentum=0.1)
        trained = torch_norm(torch.from_numpy(x).transpose(1, 2)).transpose(1, 2)
        np.testing.assert_allclose(
            batch_norm(x, GAIN, BIAS, eps=1e-5), trained.detach().numpy(), rtol=1e-10, atol=1e-12
        )
    np.testing.assert_allclose(mean, torch_norm.running_mean.numpy(), rtol=1e-12)
    np.testing.assert_allclose(var, torch_norm.running_var.numpy(), rtol=1e-12)
    torch_norm.eval()
    used = torch_norm(torch.from_numpy(x).transpose(1, 2)).transpose(1, 2).detach().numpy()
    own_result = batch_norm_inference(x, GAIN, BIAS, mean, var, eps=1e-5)
    np.testing.assert_allclose(own_result, used, rtol=1e-10, atol=1e-12)


def test_with_the_statistics_of_the_batch_both_forms_are_the_same() -> None:
    x = RANDOM.normal(size=(5, 4))
    own_result = batch_norm_inference(x, GAIN, BIAS, x.mean(0), x.var(0), eps=1e-5)
    np.testing.assert_allclose(own_result, batch_norm(x, GAIN, BIAS, eps=1e-5), rtol=1e-12)


def test_a_momentum_of_one_forgets_all_batches_before() -> None:
    x = RANDOM.normal(size=(5, 4))
    mean, var = batch_norm_update(np.ones(4), np.ones(4), x, momentum=1.0)
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(var, x.var(0, ddof=1), rtol=1e-12)


def test_a_batch_of_one_token_is_refused() -> None:
    with pytest.raises(ValueError, match="batch statistics of 1 tokens; at least 2 are needed"):
        batch_norm_update(np.zeros(4), np.ones(4), np.ones((1, 1, 4)), momentum=0.1)


def test_a_batch_without_a_token_is_refused() -> None:
    with pytest.raises(ValueError, match="the number of tokens must be at least 1, was 0"):
        batch_norm(np.ones((2, 0, 3, 4)), GAIN, BIAS, eps=1e-5)


def test_a_feature_that_never_varied_needs_an_eps_in_use() -> None:
    with pytest.raises(ValueError, match=r"var \+ eps"):
        batch_norm_inference(np.ones((2, 4)), GAIN, BIAS, np.zeros(4), np.zeros(4), eps=0.0)
