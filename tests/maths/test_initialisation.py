from __future__ import annotations

import numpy as np
import pytest

from pellucid.maths import depth_scale, he_std, xavier_std


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
