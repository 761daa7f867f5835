from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from pellucid import config
from pellucid.maths import adamw_step, gradient_noise_scale, newton_schulz
from pellucid.maths.optimisers import newton_schulz_coefficients
from pellucid.optim import assemble_optimiser, gate

FEW_EXAMPLES = settings(max_examples=20)


def from_json(shared_data: Path, name: str, key: str) -> dict:
    return json.loads((shared_data / "reference-vectors" / name).read_text())[key]


@FEW_EXAMPLES
@given(
    rows=st.integers(1, 8),
    columns=st.integers(1, 8),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    seed=st.integers(0, 100),
)
def test_newton_schulz_brings_every_singular_value_near_one(
    rows: int, columns: int, scale: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    u, _, vt = np.linalg.svd(random.normal(size=(rows, columns)), full_matrices=False)
    spread = random.uniform(0.05, 1.0, size=min(rows, columns))
    before = scale * u @ np.diag(spread) @ vt
    after = newton_schulz(before, steps=5)
    values = np.linalg.svd(after, compute_uv=False)
    assert ((values > 0.6) & (values < 1.3)).all(), values
    # the directions stay: in the old ones the result is diagonal
    in_singular_basis = u.T @ after @ vt.T
    np.testing.assert_allclose(in_singular_basis, np.diag(np.diag(in_singular_basis)), atol=1e-6)


def test_newton_schulz_does_to_singular_values_what_its_statement_says() -> None:
    shares = np.concatenate((np.geomspace(1e-6, 1.06e-3, 40), np.geomspace(1.6e-3, 0.15, 40)))
    # one more makes the Frobenius norm 1
    before = np.append(shares, np.sqrt(1 - (shares**2).sum()))
    after = np.diag(newton_schulz(np.diag(before), steps=5))
    small, large = after[:40], after[40:]
    assert ((large > 0.68) & (large < 1.21)).all(), large
    assert (small < 0.5).all()
    assert (small <= 485 * before[:40]).all()
    assert small[-1] > 0.49
    # a large matrix has such values: of a square one of 128, some stay below 1/2
    matrix = np.random.default_rng(0).normal(size=(128, 128))
    values = np.linalg.svd(newton_schulz(matrix, steps=5), compute_uv=False)
    assert values.min() < 0.5


def test_polar_express_brings_singular_values_nearer_to_one_at_each_step() -> None:
    shares = np.geomspace(1e-3, 0.1, 80)
    before = np.diag(np.append(shares, np.sqrt(1 - (shares**2).sum())))
    for steps, low, high in ((4, 0.42, 1.57), (6, 0.99, 1.01), (9, 0.9999, 1.0001)):
        after = np.diag(newton_schulz(before, steps=steps, polynomials="Polar Express"))
        assert ((after > low) & (after < high)).all(), (steps, after)


def test_polar_express_takes_the_best_polynomial_between_two_bounds() -> None:
    low, high, room = 1e-3, 1.0, 1.01
    for step in range(6):
        # the rule against polynomials that are almost flat for small values is its source's
        best = _nearest_to_one(max(low, 0.02407327424182761 * high), high)
        at_low, at_high = (np.polyval(best, x) for x in (low, high))
        best *= 2 / (at_low + at_high)
        a, b, c = newton_schulz_coefficients(step, "Polar Express")
        np.testing.assert_allclose([c * room**5, b * room**3, a * room], best[:5:2], rtol=1e-8)
        low = np.polyval(best, low)
        high = 2 - low
    assert newton_schulz_coefficients(99, "Polar Express") == (1.875, -1.25, 0.375)


def _nearest_to_one(low: float, high: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The odd polynomial of degree 5 with the least largest distance to 1 between two bounds.

    By the exchange of Remez: it errs by equal amounts, in turns, at both ends and at two places
    between them, where it is flat.
    """
    inner = np.array([(3 * low + high) / 4, (low + 3 * high) / 4])
    a = b = c = 0.0
    for _ in range(50):
        x = np.array([low, *inner, high])
        equal_errors = np.stack((x, x**3, x**5, [1, -1, 1, -1]), axis=1)
        a, b, c, _ = np.linalg.solve(equal_errors, np.ones(4))
        squares = np.roots([5 * c, 3 * b, a])
        inner = np.sort(np.sqrt(squares.real))
    return np.array([c, 0.0, b, 0.0, a, 0.0])


def test_newton_schulz_of_a_batch_is_that_of_each_matrix() -> None:
    batch = np.random.default_rng(3).normal(size=(2, 5, 3))
    single_results = np.stack([newton_schulz(matrix, steps=5) for matrix in batch])
    np.testing.assert_allclose(newton_schulz(batch, steps=5), single_results, rtol=1e-10)


def test_published_newton_schulz_is_reproduced(shared_data: Path) -> None:
    keras = from_json(shared_data, "muon.json", "newton_schulz_keras")
    own_result = newton_schulz(np.array(keras["input"]), steps=keras["steps"])
    np.testing.assert_allclose(own_result, keras["output"], atol=keras["tolerance"])


def test_published_adamw_step_is_reproduced(shared_data: Path) -> None:
    keras = from_json(shared_data, "adamw.json", "keras_single_step")
    w, grad = np.array(keras["x0"], float), np.array(keras["grad"], float)
    beta1, beta2 = keras["betas"]
    own_step, m, v = adamw_step(
        w,
        grad,
        np.zeros(4),
        np.zeros(4),
        step=1,
        learning_rate=keras["lr"],
        beta1=beta1,
        beta2=beta2,
        eps=keras["eps"],
        weight_decay=keras["weight_decay"],
    )
    np.testing.assert_allclose(own_step, keras["x1"], atol=keras["tolerance"])
    np.testing.assert_allclose(m, 0.1 * grad, rtol=1e-12)
    np.testing.assert_allclose(v, 0.001 * grad**2, rtol=1e-9)


def test_formula_is_what_torch_does_over_many_steps() -> None:
    random = np.random.default_rng(5)
    w, m, v = random.normal(size=4), np.zeros(4), np.zeros(4)
    parameter = nn.Parameter(torch.from_numpy(w.copy()))
    options = {"eps": 1e-8, "weight_decay": 0.1}
    torch_adamw = torch.optim.AdamW([parameter], lr=0.01, betas=(0.9, 0.95), **options)
    for step in range(1, 31):
        grad = random.normal(size=4)
        w, m, v = adamw_step(
            w, grad, m, v, step=step, learning_rate=0.01, beta1=0.9, beta2=0.95, **options
        )
        parameter.grad = torch.from_numpy(grad)
        torch_adamw.step()
    np.testing.assert_allclose(w, parameter.detach().numpy(), rtol=1e-12)


def test_published_thousand_steps_of_adamw_are_reproduced(shared_data: Path) -> None:
    expected = from_json(shared_data, "adamw.json", "cs336_1000_steps")["final_weight"]
    with torch.random.fork_rng():
        torch.manual_seed(42)
        linear = nn.Linear(3, 2, bias=False)
        adamw = config.AdamW(learning_rate=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
        optimiser = assemble_optimiser(adamw, linear.named_parameters())
        for _ in range(1000):
            x = torch.rand(3)
            loss = ((torch.stack([x[0] + x[1], -x[2]]) - linear(x)) ** 2).sum()
            optimiser.zero_grad()
            loss.backward()
            open_gate = gate(optimiser.gradients(), loss, clip_norm=None, blocked=torch.zeros(()))
            optimiser.step(open_gate, 1.0)
    assert linear.weight.tolist() == [pytest.approx(row, abs=1e-4) for row in expected]


def test_the_noise_scale_is_the_covariance_over_the_squared_mean() -> None:
    gradients = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    assert gradient_noise_scale(gradients) == pytest.approx(1.0)
    assert gradient_noise_scale(3 * gradients + [3.0, 0.0]) == pytest.approx(9 / 36)
