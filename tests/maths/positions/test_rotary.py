from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.maths import (
    angles_at,
    interpolated_frequencies,
    llama3_frequencies,
    rotary_angles,
    rotary_frequencies,
    rotate,
    rotate_grad,
    to_half_split,
    to_interleaved,
)

FEW_EXAMPLES = settings(max_examples=30)
PAIRINGS = ["interleaved", "half_split"]


def published(shared_data: Path, key: str) -> Any:
    return json.loads((shared_data / "reference-vectors" / "rope.json").read_text())[key]


def frequencies(d_head: int, base: float = 1e4) -> np.ndarray:
    return rotary_frequencies(np.arange(d_head // 2, dtype=float), n_rotated=d_head, base=base)


@FEW_EXAMPLES
@given(shift=st.integers(0, 1000), half=st.integers(1, 8), pairing=st.sampled_from(PAIRINGS))
def test_product_of_turned_vectors_depends_on_their_distance_alone(
    shift: int, half: int, pairing: Any
) -> None:
    q, k = np.random.default_rng(half).normal(size=(2, 1, 2 * half))
    angles_here = rotary_angles(np.array([3.0, 8.0]), d_head=2 * half, base=1e4)
    angles_later = rotary_angles(np.array([3.0, 8.0]) + shift, d_head=2 * half, base=1e4)
    products_here, products_later = (
        rotate(q, angles[:1], pairing=pairing) @ rotate(k, angles[1:], pairing=pairing).T
        for angles in (angles_here, angles_later)
    )
    np.testing.assert_allclose(products_later, products_here, rtol=1e-9, atol=1e-9)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), n_pairs=st.integers(0, 3), pairing=st.sampled_from(PAIRINGS))
def test_turning_keeps_every_length_and_the_features_without_an_angle(
    seed: int, n_pairs: int, pairing: Any
) -> None:
    random = np.random.default_rng(seed)
    x, angles = random.normal(size=(2, 5, 6)), random.normal(size=(5, n_pairs)) * 10
    rotated = rotate(x, angles, pairing=pairing)
    np.testing.assert_array_equal(rotated[..., 2 * n_pairs :], x[..., 2 * n_pairs :])
    np.testing.assert_allclose((rotated**2).sum(-1), (x**2).sum(-1), rtol=1e-12)
    np.testing.assert_allclose(rotate(rotated, -angles, pairing=pairing), x, atol=1e-12)


@FEW_EXAMPLES
@given(seed=st.integers(0, 99), half=st.integers(1, 8))
def test_weights_put_in_order_give_the_same_scores_with_the_other_pairing(
    seed: int, half: int
) -> None:
    random = np.random.default_rng(seed)
    q, k = random.normal(size=(2, 4, 2 * half))
    angles = random.normal(size=(4, half))
    order = to_half_split(np.arange(2 * half))
    scores_of_neighbours = (
        rotate(q, angles, pairing="interleaved") @ rotate(k, angles, pairing="interleaved").T
    )
    scores_of_halves = (
        rotate(q[:, order], angles, pairing="half_split")
        @ rotate(k[:, order], angles, pairing="half_split").T
    )
    np.testing.assert_allclose(scores_of_halves, scores_of_neighbours, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(to_interleaved(order), np.arange(2 * half))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_gradient_is_the_gradient_turned_back(pairing: Any) -> None:
    random = np.random.default_rng(1)
    (x, grad), angles = random.normal(size=(2, 5, 6)), random.normal(size=(5, 2))
    tensor = torch.from_numpy(x).requires_grad_()
    rotate(tensor, torch.from_numpy(angles), pairing=pairing).backward(torch.from_numpy(grad))
    hand_gradient = rotate_grad(angles, grad, pairing=pairing)
    np.testing.assert_allclose(hand_gradient, tensor.grad.numpy(), rtol=1e-12, atol=1e-14)


def test_order_of_features_is_evens_then_odds_and_back() -> None:
    np.testing.assert_array_equal(to_half_split(np.arange(6)), [0, 2, 4, 1, 3, 5])
    np.testing.assert_array_equal(to_interleaved(np.arange(6)), [0, 3, 1, 4, 2, 5])


def test_an_unknown_pairing_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="pairing is 'neox'; it has to be 'interleaved' or"):
        rotate(np.ones((1, 2)), np.ones((1, 1)), pairing="neox")


def test_angles_fall_from_the_position_itself_by_equal_factors() -> None:
    angles = rotary_angles(np.array([2.0]), d_head=8, base=10_000.0)
    np.testing.assert_allclose(angles, [[2.0, 0.2, 0.02, 0.002]], rtol=1e-12)


def test_published_rotary_embeddings_are_reproduced(shared_data: Path) -> None:
    keras = published(shared_data, "keras_hub_vs_flax")
    x = np.random.default_rng(0).standard_normal((2, 2, 1, 16)).astype(np.float32)
    for row, positions in enumerate(keras["positions"]):
        angles = rotary_angles(np.array(positions, float), d_head=16, base=1e4)
        rotated = rotate(x[row, :, 0], angles, pairing="half_split")
        expected = keras["expected_batch1"] if row == 1 else x[0, :, 0]
        np.testing.assert_allclose(rotated, expected, atol=1e-6)


def test_published_scaled_rotary_embeddings_are_reproduced(shared_data: Path) -> None:
    scaled = published(shared_data, "hf_linear_scaling")
    for factor, positions, key in (
        (2, np.arange(3.0), "scaling_factor_2_positions_0_1_2"),
        (5, np.array([12.0]), "scaling_factor_5_position_12"),
    ):
        angles = angles_at(positions, interpolated_frequencies(frequencies(4), factor=factor))
        rotated = rotate(np.ones((len(positions), 4)), angles, pairing="half_split")
        np.testing.assert_allclose(rotated, np.atleast_2d(scaled[key]), atol=1e-6)


def test_published_rotary_sines_and_cosines_are_reproduced(shared_data: Path) -> None:
    fairseq = published(shared_data, "fairseq")
    angles = rotary_angles(np.array(fairseq["positions"], float), d_head=2, base=1e4)
    np.testing.assert_allclose(np.cos(angles)[:, 0], fairseq["cos"], atol=1e-4)
    np.testing.assert_allclose(np.sin(angles)[:, 0], fairseq["sin"], atol=1e-4)
    query = torch.randn(3, 1, 2, generator=torch.Generator().manual_seed(0)).numpy()[:, 0]
    rotated = rotate(query, angles, pairing="half_split")
    np.testing.assert_allclose(rotated, fairseq["rotated_query"], atol=1e-4)


def test_published_snapshot_of_interleaved_pairs_is_reproduced(shared_data: Path) -> None:
    entry = published(shared_data, "cs336_snapshot")
    file = (shared_data / "reference-vectors" / entry["file"]).resolve()
    if not file.is_file():
        pytest.skip(f"the snapshot that rope.json names is not at {file}")
    x = torch.randn(4, 12, 64, generator=torch.Generator().manual_seed(4))
    angles = rotary_angles(torch.arange(12.0), d_head=64, base=1e4)
    (expected,) = np.load(file).values()
    rotated = rotate(x, angles, pairing="interleaved").numpy()
    np.testing.assert_allclose(rotated, expected, atol=1e-5)


LLAMA3 = {"factor": 8.0, "original_length": 8192, "low": 1.0, "high": 4.0}


@pytest.mark.parametrize("scaled", [False, True])
def test_published_sums_over_long_texts_are_reproduced(shared_data: Path, scaled: bool) -> None:
    key = "llama3_1_scaled_rope_mean_sum_max" if scaled else "rope_mean_sum_max"
    mean, total, largest = published(shared_data, "torchtune_summary")[key]
    theta = torch.from_numpy(frequencies(128))
    if scaled:
        theta = llama3_frequencies(theta, **LLAMA3)
    x = torch.randn(4, 2048, 32, 128, generator=torch.Generator().manual_seed(0)).transpose(1, 2)
    angles = angles_at(torch.arange(2048, dtype=torch.float64), theta).float()
    rotated = rotate(x, angles, pairing="interleaved")
    assert float(rotated.double().mean()) == pytest.approx(mean, abs=1e-8)
    # 34 million numbers in float32: the sum is published with what rounding left of it
    assert float(rotated.double().sum()) == pytest.approx(total, abs=0.2)
    assert float(rotated.max()) == pytest.approx(largest, abs=1e-4)


def test_published_sums_of_scaled_cosines_and_sines_are_reproduced(shared_data: Path) -> None:
    entry = published(shared_data, "torchtune_summary")
    mean, total, largest = entry["llama3_1_freqs_cis_mean_sum_max"]
    angles = angles_at(np.arange(4096.0), llama3_frequencies(frequencies(128), **LLAMA3))
    cosines_and_sines = np.concatenate([np.cos(angles), np.sin(angles)])
    assert cosines_and_sines.mean() == pytest.approx(mean, abs=1e-4)
    assert cosines_and_sines.sum() == pytest.approx(total, abs=0.05)
    assert cosines_and_sines.max() == largest


@pytest.mark.parity
def test_partly_turned_heads_are_those_of_gptj_and_gpt_neox() -> None:
    gptj = pytest.importorskip("transformers.models.gptj.modeling_gptj")
    neox = pytest.importorskip("transformers.models.gpt_neox.modeling_gpt_neox")
    x = torch.randn(2, 5, 3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    angles = rotary_angles(torch.arange(5, dtype=torch.float64), d_head=4, base=1e4)
    rotated = rotate(x.transpose(1, 2), angles, pairing="interleaved").transpose(1, 2)
    sin, cos = angles.sin().expand(2, -1, -1), angles.cos().expand(2, -1, -1)
    reference_result = gptj.apply_rotary_pos_emb(x[..., :4], sin, cos)
    torch.testing.assert_close(rotated, torch.cat([reference_result, x[..., 4:]], dim=-1))

    heads = x.transpose(1, 2)
    sin, cos = (torch.cat([part, part], dim=-1) for part in (sin, cos))
    reference_result, _ = neox.apply_rotary_pos_emb(heads, heads, cos, sin)
    torch.testing.assert_close(rotate(heads, angles, pairing="half_split"), reference_result)
