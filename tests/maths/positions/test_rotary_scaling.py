from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid import maths
from pellucid.errors import MathsError
from pellucid.maths import (
    dynamic_ntk_frequencies,
    interpolated_frequencies,
    llama3_frequencies,
    ntk_frequencies,
    rotary_frequencies,
    yarn_attention_factor,
    yarn_frequencies,
)

FEW_EXAMPLES = settings(max_examples=30)


def frequencies(n_rotated: int, base: float = 1e4) -> np.ndarray:
    pairs = np.arange(n_rotated // 2, dtype=float)
    return rotary_frequencies(pairs, n_rotated=n_rotated, base=base)


THETA = frequencies(64)
TURNS = 4096 * THETA / (2 * math.pi)
YARN = {"original_length": 4096, "base": 1e4, "beta_fast": 32.0, "beta_slow": 1.0}
LLAMA3 = {"original_length": 4096, "low": 1.0, "high": 4.0}


@FEW_EXAMPLES
@given(factor=st.floats(1, 64), half=st.integers(2, 64), base=st.sampled_from([1e4, 5e5]))
def test_ntk_is_a_larger_base(factor: float, half: int, base: float) -> None:
    d = 2 * half
    scaled_frequencies = ntk_frequencies(frequencies(d, base), factor=factor)
    larger = frequencies(d, base * factor ** (d / (d - 2)))
    np.testing.assert_allclose(scaled_frequencies, larger, rtol=1e-10)
    assert scaled_frequencies[0] == 1.0
    np.testing.assert_allclose(
        scaled_frequencies[-1], frequencies(d, base)[-1] / factor, rtol=1e-10
    )


def test_dynamic_ntk_changes_nothing_up_to_the_original_length() -> None:
    for length in (1, 4096):
        scaled_frequencies = dynamic_ntk_frequencies(
            THETA, factor=2.0, length=length, original_length=4096
        )
        np.testing.assert_array_equal(scaled_frequencies, THETA)
    twice = dynamic_ntk_frequencies(THETA, factor=1.0, length=8192, original_length=4096)
    np.testing.assert_allclose(twice, ntk_frequencies(THETA, factor=2.0), rtol=1e-14)


Scheme = Callable[[np.ndarray, float], np.ndarray]
SCHEMES: dict[str, Scheme] = {
    "interpolated": lambda theta, s: interpolated_frequencies(theta, factor=s),
    "ntk": lambda theta, s: ntk_frequencies(theta, factor=s),
    "llama3": lambda theta, s: llama3_frequencies(theta, factor=s, **LLAMA3),
    "yarn": lambda theta, s: yarn_frequencies(theta, factor=s, **YARN),
}


@pytest.mark.parametrize("name", SCHEMES)
@FEW_EXAMPLES
@given(factor=st.floats(1, 128))
def test_no_frequency_rises_or_falls_by_more_than_the_factor(name: str, factor: float) -> None:
    share = SCHEMES[name](THETA, factor) / THETA
    assert (share <= 1 + 1e-12).all()
    assert (share >= 1 / factor - 1e-12).all()
    assert (np.diff(share) <= 1e-12).all()  # the slower a pair, the more it is stretched


@pytest.mark.parametrize("name", SCHEMES)
def test_a_factor_of_one_changes_nothing(name: str) -> None:
    np.testing.assert_allclose(SCHEMES[name](THETA, 1.0), THETA, rtol=1e-14)


def test_pairs_beyond_the_ramp_are_kept_or_divided_whole() -> None:
    llama3 = llama3_frequencies(THETA, factor=8.0, **LLAMA3) / THETA
    np.testing.assert_allclose(llama3[TURNS > 4], 1.0, rtol=1e-14)
    np.testing.assert_allclose(llama3[TURNS < 1], 1 / 8, rtol=1e-14)
    yarn = yarn_frequencies(THETA, factor=8.0, **YARN) / THETA
    first, last = np.flatnonzero(TURNS > 32)[-1], np.flatnonzero(TURNS < 1)[0]
    np.testing.assert_allclose(yarn[: first + 1], 1.0, rtol=1e-14)
    np.testing.assert_allclose(yarn[last:], 1 / 8, rtol=1e-14)
    assert ((yarn[first + 1 : last] < 1) & (yarn[first + 1 : last] > 1 / 8)).all()


def test_a_factor_for_each_pair_divides_each_by_its_own() -> None:
    factors = np.linspace(1, 4, len(THETA))
    scaled_frequencies = interpolated_frequencies(THETA, factor=factors)
    np.testing.assert_array_equal(scaled_frequencies, THETA / factors)


def test_attention_stays_as_it_is_where_nothing_is_stretched() -> None:
    assert yarn_attention_factor(1.0) == yarn_attention_factor(0.5) == 1.0
    assert yarn_attention_factor(math.e**10) == pytest.approx(2.0, rel=1e-12)


PARITY: dict[str, tuple[dict[str, Any], Callable[[np.ndarray], np.ndarray], float]] = {
    "linear": ({"factor": 4.0}, lambda theta: interpolated_frequencies(theta, factor=4.0), 1.0),
    "dynamic": (
        {"factor": 4.0},
        lambda theta: dynamic_ntk_frequencies(theta, factor=4.0, length=3000, original_length=2048),
        1.0,
    ),
    "yarn": (
        {"factor": 16.0, "original_max_position_embeddings": 4096},
        lambda theta: yarn_frequencies(theta, factor=16.0, **YARN),
        yarn_attention_factor(16.0),
    ),
    "yarn of DeepSeek": (
        {
            "factor": 40.0,
            "original_max_position_embeddings": 4096,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "mscale": 0.707,
            "mscale_all_dim": 1.0,
            "truncate": False,
        },
        lambda theta: yarn_frequencies(
            theta, factor=40.0, truncate=False, **{**YARN, "beta_fast": 16.0, "beta_slow": 2.0}
        ),
        yarn_attention_factor(40.0, weight=0.707) / yarn_attention_factor(40.0),
    ),
    "llama3": (
        {
            "factor": 8.0,
            "original_max_position_embeddings": 4096,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
        lambda theta: llama3_frequencies(theta, factor=8.0, **LLAMA3),
        1.0,
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("partial", [1.0, 0.5])
@pytest.mark.parametrize("name", PARITY)
def test_scaled_frequencies_are_those_of_transformers(name: str, partial: float) -> None:
    transformers = pytest.importorskip("transformers")
    functions = pytest.importorskip("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
    numbers, scaled, factor = PARITY[name]
    kind = name.split()[0]
    rope = {"rope_type": kind, "rope_theta": 1e4, "partial_rotary_factor": partial, **numbers}
    config = transformers.LlamaConfig(
        hidden_size=512, num_attention_heads=4, max_position_embeddings=2048, rope_parameters=rope
    )
    reference_frequencies, attention_factor = functions[kind](
        config, torch.device("cpu"), seq_len=3000
    )
    own_frequencies = scaled(frequencies(round(128 * partial)))
    np.testing.assert_allclose(own_frequencies, reference_frequencies.numpy(), rtol=2e-6)
    assert attention_factor == pytest.approx(factor, rel=1e-12)


def test_equal_bounds_of_yarn_are_a_step_and_crossed_ones_are_refused() -> None:
    frequencies = np.array([1.0, 0.1, 0.01, 0.001])
    kwargs = {"factor": 4.0, "original_length": 64, "base": 1000.0, "truncate": True}
    scaled = maths.yarn_frequencies(frequencies, beta_fast=2.0, beta_slow=2.0, **kwargs)
    assert np.all((scaled == frequencies) | np.isclose(scaled, frequencies / 4))
    with pytest.raises(MathsError, match=r"beta_slow is 3\.0"):
        maths.yarn_frequencies(frequencies, beta_fast=2.0, beta_slow=3.0, **kwargs)
