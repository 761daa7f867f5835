from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.maths import rotary_angles, sinusoid

FEW = settings(max_examples=30, deadline=None)


def published(shared_data: Path, name: str) -> Any:
    return json.loads((shared_data / "reference-vectors" / name).read_text())


def turned(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Feature i and feature i + d_head / 2 turned together: the half-split layout."""
    first, second = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


@FEW
@given(shift=st.integers(0, 1000), half=st.integers(1, 8))
def test_product_of_turned_vectors_depends_on_their_distance_alone(shift: int, half: int) -> None:
    q, k = np.random.default_rng(half).normal(size=(2, 1, 2 * half))
    here = rotary_angles(np.array([3.0, 8.0]), d_head=2 * half, base=1e4)
    there = rotary_angles(np.array([3.0, 8.0]) + shift, d_head=2 * half, base=1e4)
    near = turned(q, here[0]) @ turned(k, here[1]).T
    far = turned(q, there[0]) @ turned(k, there[1]).T
    np.testing.assert_allclose(far, near, rtol=1e-9, atol=1e-9)


def test_angles_fall_from_the_position_itself_by_equal_factors() -> None:
    angles = rotary_angles(np.array([2.0]), d_head=8, base=10_000.0)
    np.testing.assert_allclose(angles, [[2.0, 0.2, 0.02, 0.002]], rtol=1e-12)


def test_published_rotary_embeddings_are_reproduced(shared_data: Path) -> None:
    keras = published(shared_data, "rope.json")["keras_hub_vs_flax"]
    x = np.random.default_rng(0).standard_normal((2, 2, 1, 16)).astype(np.float32)
    for row, positions in enumerate(keras["positions"]):
        angles = rotary_angles(np.array(positions, float), d_head=16, base=1e4)
        ours = turned(x[row, :, 0], angles)
        expected = keras["expected_batch1"] if row == 1 else x[0, :, 0]
        np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_published_scaled_rotary_embeddings_are_reproduced(shared_data: Path) -> None:
    """Linear scaling of the context is the same as smaller positions."""
    scaled = published(shared_data, "rope.json")["hf_linear_scaling"]
    angles = rotary_angles(np.arange(3.0) / 2, d_head=4, base=1e4)
    expected = scaled["scaling_factor_2_positions_0_1_2"]
    np.testing.assert_allclose(turned(np.ones((3, 4)), angles), expected, atol=1e-6)
    angles = rotary_angles(np.array([12.0]) / 5, d_head=4, base=1e4)
    expected = scaled["scaling_factor_5_position_12"]
    np.testing.assert_allclose(turned(np.ones((1, 4)), angles)[0], expected, atol=1e-6)


def test_published_rotary_sines_and_cosines_are_reproduced(shared_data: Path) -> None:
    fairseq = published(shared_data, "rope.json")["fairseq"]
    angles = rotary_angles(np.array(fairseq["positions"], float), d_head=2, base=1e4)
    np.testing.assert_allclose(np.cos(angles)[:, 0], fairseq["cos"], atol=1e-4)
    np.testing.assert_allclose(np.sin(angles)[:, 0], fairseq["sin"], atol=1e-4)
    query = torch.randn(3, 1, 2, generator=torch.Generator().manual_seed(0)).numpy()[:, 0]
    np.testing.assert_allclose(turned(query, angles), fairseq["rotated_query"], atol=1e-4)


@pytest.mark.parametrize(
    ("key", "width", "position"), [("d6_pos0", 6, 0.0), ("d6_pos3", 6, 3.0), ("d4_pos1", 4, 1.0)]
)
def test_published_sinusoids_are_reproduced(
    shared_data: Path, key: str, width: int, position: float
) -> None:
    expected = published(shared_data, "positions_other.json")["sinusoidal_interleaved"][key]
    ours = sinusoid(np.array([position]), d_model=width, base=1e4)[0]
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_every_sine_has_its_cosine_beside_it() -> None:
    table = sinusoid(np.arange(50.0), d_model=10, base=1e4)
    np.testing.assert_allclose(table[:, ::2] ** 2 + table[:, 1::2] ** 2, 1.0, rtol=1e-12)
