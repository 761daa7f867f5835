from __future__ import annotations

import numpy as np
import pytest

from pellucid.maths import (
    deep_norm_decoder,
    deep_norm_encoder,
    deep_norm_one_stack,
    depth_scale,
    he_std,
    xavier_std,
)


def test_he_keeps_the_mean_square_through_a_relu() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(512, 256))
    y = np.maximum(x @ (random.normal(size=(256, 256)) * he_std(256)), 0)
    assert (y**2).mean() == pytest.approx(1.0, rel=0.05)


def test_xavier_keeps_the_variance_through_a_square_matrix() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(512, 256))
    y = x @ (random.normal(size=(256, 256)) * xavier_std(256, 256))
    assert y.var() == pytest.approx(1.0, rel=0.05)


def test_depth_scale_keeps_the_stream_at_unit_variance_whatever_the_depth() -> None:
    random = np.random.default_rng(0)
    for n_layers in (2, 32):
        added = random.normal(size=(2 * n_layers, 4096)) * depth_scale(n_layers)
        assert added.sum(0).var() == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("n_layers", [1, 6, 200])
def test_deep_norm_bounds_the_update_whatever_the_depth(n_layers: int) -> None:
    """Wang et al. 2022: the sum of (v^2 + w^2) / alpha^2 over the sublayers, v = w = beta, is 1."""
    alpha, beta = deep_norm_one_stack(n_layers)
    assert 2 * n_layers * 2 * beta**2 / alpha**2 == pytest.approx(1.0, rel=1e-12)
    alpha, beta = deep_norm_decoder(n_layers)
    assert 3 * n_layers * 2 * beta**2 / alpha**2 == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(("n_encoder", "n_decoder"), [(6, 6), (100, 100), (18, 3)])
def test_deep_norm_bounds_what_the_encoder_adds_through_the_decoder(
    n_encoder: int, n_decoder: int
) -> None:
    """Their bound, with constants that they round to two digits."""
    alpha, beta = deep_norm_encoder(n_encoder, n_decoder)
    decoder_alpha, decoder_beta = deep_norm_decoder(n_decoder)
    encoder = 2 * n_encoder * 2 * beta**2 / alpha**2
    through_the_decoder = n_decoder * decoder_beta**2 / decoder_alpha
    assert encoder * through_the_decoder == pytest.approx(1.0, rel=0.02)
