from __future__ import annotations

import numpy as np
import pytest

from pellucid.maths import clipped_policy_loss, clipped_policy_loss_grad


@pytest.mark.parametrize("advantage", [0.5, 2.0, -0.5, -2.0])
def test_a_clipped_ratio_passes_no_gradient_whatever_the_size_of_its_advantage(
    advantage: float,
) -> None:
    log_p = np.log([0.5, 0.9, 1.1, 2.0])
    old, advantages, step = np.zeros(4), np.full(4, advantage), 1e-6
    slopes = (
        clipped_policy_loss(log_p + step, old, advantages, clip=0.2)
        - clipped_policy_loss(log_p - step, old, advantages, clip=0.2)
    ) / (2 * step)
    gradient = clipped_policy_loss_grad(log_p, old, advantages, clip=0.2)
    np.testing.assert_allclose(gradient, slopes, atol=1e-8)
    assert gradient[3 if advantage > 0 else 0] == 0
