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
    alibi_bias,
    alibi_slopes,
    clipped_distance_index,
    distance_buckets,
    log_distance_rows,
    relative_distances,
)

FEW_EXAMPLES = settings(max_examples=30)
FAR = np.arange(-2000, 2001)


def published(shared_data: Path) -> Any:
    file = shared_data / "reference-vectors" / "positions_other.json"
    return json.loads(file.read_text())["alibi"]


def slopes(n_heads: int, max_exponent: float = 8.0) -> np.ndarray:
    heads = np.arange(n_heads, dtype=float)
    return alibi_slopes(heads, n_heads=n_heads, max_exponent=max_exponent)


def test_distance_is_where_the_key_lies_seen_from_the_query() -> None:
    distances = relative_distances(np.array([5, 6]), np.array([4, 5, 6, 7]))
    np.testing.assert_array_equal(distances, [[-1, 0, 1, 2], [-2, -1, 0, 1]])


def test_rows_of_near_distances_are_their_own_and_far_ones_share() -> None:
    rows = log_distance_rows(np.arange(-40, 41), n_buckets=16, max_distance=24)
    assert (np.diff(rows) <= 0).all()
    np.testing.assert_array_equal(rows[40 - 4 : 40 + 5], np.arange(12, 3, -1))
    assert (rows[0], rows[-1]) == (15, 0)
    # the last distance of the longest bucket that the logarithm gives: 23 = max_distance - 1
    np.testing.assert_array_equal(rows[[40 + 23, 40 + 24, 40 - 23]], [1, 0, 15])


def test_distances_beyond_the_largest_share_its_vector() -> None:
    index = clipped_distance_index(np.array([-9, -2, -1, 0, 1, 2, 9]), max_distance=2)
    np.testing.assert_array_equal(index, [0, 0, 1, 2, 3, 4, 4])


@FEW_EXAMPLES
@given(
    n_buckets=st.sampled_from([4, 8, 32, 64]),
    max_distance=st.integers(64, 1000),
    causal=st.booleans(),
)
def test_buckets_rise_with_the_distance_up_to_the_last(
    n_buckets: int, max_distance: int, causal: bool
) -> None:
    options = {"n_buckets": n_buckets, "max_distance": max_distance, "causal": causal}
    earlier_buckets = distance_buckets(-np.arange(2001), **options)
    later_buckets = distance_buckets(np.arange(1, 2001), **options)
    each_side = n_buckets if causal else n_buckets // 2
    assert (np.diff(earlier_buckets) >= 0).all()
    assert earlier_buckets[0] == 0
    assert earlier_buckets[-1] == each_side - 1
    assert (earlier_buckets[max_distance:] == each_side - 1).all()
    if causal:
        assert (later_buckets == 0).all()
    else:
        np.testing.assert_array_equal(later_buckets, earlier_buckets[1:] + each_side)


def test_near_distances_have_a_bucket_each() -> None:
    buckets = distance_buckets(-np.arange(17), n_buckets=32, max_distance=128, causal=True)
    np.testing.assert_array_equal(buckets, np.arange(17))


def test_a_distance_at_the_start_of_a_bucket_belongs_to_it() -> None:
    """Starts 8, 8 sqrt 2, 16, ...: a logarithm that is a little off would miss the whole ones."""
    distances = np.array([-15, -16, -31, -32, -63, -64, -127, -128])
    buckets = distance_buckets(distances, n_buckets=32, max_distance=128, causal=False)
    np.testing.assert_array_equal(buckets, [9, 10, 11, 12, 13, 14, 15, 15])


def test_too_small_a_largest_distance_is_refused() -> None:
    with pytest.raises(ValueError, match="max_distance is 16; it has to be above 16"):
        distance_buckets(FAR, n_buckets=32, max_distance=16, causal=True)


@pytest.mark.parity
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("n_buckets", "max_distance"),
    [(32, 128), (32, 256), (16, 100), (64, 512), (128, 1000), (8, 20)],
)
def test_buckets_are_those_of_t5(n_buckets: int, max_distance: int, causal: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    t5_buckets = t5.T5Attention._relative_position_bucket(
        torch.from_numpy(FAR),
        bidirectional=not causal,
        num_buckets=n_buckets,
        max_distance=max_distance,
    )
    own_buckets = distance_buckets(
        FAR, n_buckets=n_buckets, max_distance=max_distance, causal=causal
    )
    np.testing.assert_array_equal(own_buckets, t5_buckets.numpy())


@pytest.mark.parametrize("n_heads", [1, 2, 8, 16, 32])
def test_slopes_of_a_power_of_two_are_a_geometric_series(n_heads: int) -> None:
    own_slopes = slopes(n_heads)
    np.testing.assert_allclose(own_slopes[0], 2 ** (-8 / n_heads), rtol=1e-14)
    np.testing.assert_allclose(own_slopes[-1], 1 / 256, rtol=1e-14)
    np.testing.assert_allclose(own_slopes[1:] / own_slopes[:-1], 2 ** (-8 / n_heads), rtol=1e-14)


@pytest.mark.parametrize("n_heads", [3, 12, 14, 20])
def test_slopes_between_powers_of_two_lie_between_those_of_the_smaller(n_heads: int) -> None:
    n = 2 ** (n_heads.bit_length() - 1)
    own_slopes = slopes(n_heads)
    np.testing.assert_array_equal(own_slopes[:n], slopes(n))
    np.testing.assert_allclose(own_slopes[n:], slopes(2 * n)[::2][: n_heads - n], rtol=1e-14)


@pytest.mark.parametrize(
    ("key", "n_heads", "first"),
    [
        ("bias_max_8_heads_8", 8, 0),
        ("bias_max_8_heads_14_extra_6", 14, 8),
        ("bias_max_12_heads_2", 2, 0),
        ("bias_max_6_heads_3", 3, 0),
    ],
)
def test_published_biases_are_reproduced(
    shared_data: Path, key: str, n_heads: int, first: int
) -> None:
    alibi = published(shared_data)
    n_keys, n_queries = alibi["key_len"], alibi["query_len"]
    queries = np.arange(n_keys - n_queries, n_keys, dtype=float)
    distances = relative_distances(queries, np.arange(n_keys, dtype=float))
    own_bias = alibi_bias(slopes(n_heads, float(key.split("_")[2])), distances)
    np.testing.assert_allclose(own_bias[first:, 0], alibi[key], atol=1e-7)


@pytest.mark.parity
@pytest.mark.parametrize("n_heads", [4, 12])
def test_biases_prefer_keys_as_those_of_bloom_do(n_heads: int) -> None:
    """Bloom counts from the first key: each row is shifted by a number, which softmax ignores."""
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    bloom_bias = bloom.build_alibi_tensor(torch.ones(1, 6), n_heads, torch.float64).numpy()
    distances = relative_distances(np.array([5.0]), np.arange(6.0))
    own_bias = alibi_bias(slopes(n_heads), distances)
    np.testing.assert_allclose(own_bias - own_bias[..., :1], bloom_bias, atol=1e-6)
