from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.maths import rotary_angles, rotate, sinusoid, to_half_split

FEW_EXAMPLES = settings(max_examples=30)


def published(shared_data: Path, key: str) -> Any:
    return json.loads((shared_data / "reference-vectors" / "positions_other.json").read_text())[key]


@pytest.mark.parametrize(
    ("key", "width", "position"), [("d6_pos0", 6, 0.0), ("d6_pos3", 6, 3.0), ("d4_pos1", 4, 1.0)]
)
def test_published_sinusoids_are_reproduced(
    shared_data: Path, key: str, width: int, position: float
) -> None:
    expected = published(shared_data, "sinusoidal_interleaved")[key]
    own_row = sinusoid(np.array([position]), d_model=width, base=1e4)[0]
    np.testing.assert_allclose(own_row, expected, atol=1e-5)


def test_published_sinusoids_of_distances_are_reproduced(shared_data: Path) -> None:
    xl = published(shared_data, "relative_xl_style")
    distances = np.arange(xl["max_len"] - 1.0, -xl["max_len"], -1.0)
    own_table = sinusoid(distances, d_model=xl["d_model"], base=1e4)
    np.testing.assert_allclose(own_table, xl["pe"], atol=1e-4)


def test_every_sine_has_its_cosine_beside_it() -> None:
    table = sinusoid(np.arange(50.0), d_model=10, base=1e4)
    np.testing.assert_allclose(table[:, ::2] ** 2 + table[:, 1::2] ** 2, 1.0, rtol=1e-12)


def test_halves_are_the_same_numbers_in_another_order() -> None:
    options = {"d_model": 10, "base": 1e4}
    interleaved = sinusoid(np.arange(5.0), **options)
    halves = sinusoid(np.arange(5.0), pairing="half_split", **options)
    np.testing.assert_array_equal(halves, to_half_split(interleaved))
    np.testing.assert_allclose(halves[1, 0], np.sin(1.0), rtol=1e-15)
    np.testing.assert_allclose(halves[1, 5], np.cos(1.0), rtol=1e-15)


@FEW_EXAMPLES
@given(step=st.integers(0, 500), half=st.integers(1, 8), start=st.integers(0, 500))
def test_a_step_of_any_size_turns_every_sinusoid_alike(step: int, half: int, start: int) -> None:
    """(sin a, cos a) is a point of the plane; a later position is the same point turned back."""
    options = {"d_model": 2 * half, "base": 1e4}
    first_point, second_point = sinusoid(np.array([start, start + step], dtype=float), **options)
    angles = rotary_angles(np.array([float(step)]), d_head=2 * half, base=1e4)
    rotated = rotate(first_point[None], -angles, pairing="interleaved")[0]
    np.testing.assert_allclose(rotated, second_point, atol=1e-9)


def test_an_offset_is_a_later_start() -> None:
    late = sinusoid(np.arange(4.0), d_model=6, base=1e4, offset=2.0)
    np.testing.assert_array_equal(late, sinusoid(np.arange(2.0, 6.0), d_model=6, base=1e4))


def test_down_to_base_the_last_frequency_is_the_inverse_of_the_base() -> None:
    table = sinusoid(np.array([1.0]), d_model=8, base=100.0, down_to_base=True)
    np.testing.assert_allclose(table[0, -2], np.sin(0.01), rtol=1e-12)
    one_pair = sinusoid(np.array([1.0]), d_model=2, base=100.0, down_to_base=True)
    np.testing.assert_allclose(one_pair[0], [np.sin(1.0), np.cos(1.0)], rtol=1e-12)


def test_an_unknown_pairing_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="pairing is 'halves'; it has to be 'interleaved' or"):
        sinusoid(np.arange(4.0), d_model=6, base=1e4, pairing="halves")


@pytest.mark.parity
def test_sinusoids_in_halves_are_those_of_fairseq_as_transformers_has_them() -> None:
    fairseq_module = pytest.importorskip("transformers.models.m2m_100.modeling_m2m_100")
    table = fairseq_module.M2M100SinusoidalPositionalEmbedding.get_embedding(
        40, 16, padding_idx=None
    )
    own_table = sinusoid(
        np.arange(40.0), d_model=16, base=1e4, pairing="half_split", down_to_base=True
    )
    np.testing.assert_allclose(own_table, table.numpy(), atol=1e-5)
