"""Paired statistics equal scipy's, hold at their limits, and predict later results."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from scipy import stats

from pellucid.errors import LibraryError
from pellucid.lab import (
    detectable_difference,
    holm,
    mean_interval,
    paired_difference,
    permute_signs,
    power,
    seeds_needed,
)

RANDOM = np.random.default_rng(7)
FIRST = RANDOM.normal(size=9).tolist()
SECOND = (np.array(FIRST) + RANDOM.normal(0.3, 0.4, size=9)).tolist()


@pytest.mark.parametrize("n", [2, 5, 9])
def test_difference_has_the_interval_and_the_p_of_the_paired_t_test(n: int) -> None:
    reference = stats.ttest_rel(SECOND[:n], FIRST[:n])
    difference = paired_difference(FIRST[:n], SECOND[:n])
    assert difference.mean == pytest.approx(np.mean(np.subtract(SECOND, FIRST)[:n]))
    assert difference.p == pytest.approx(reference.pvalue)
    assert difference.interval == pytest.approx(tuple(reference.confidence_interval(0.95)))
    assert mean_interval(FIRST[:n]) == pytest.approx(
        stats.t.interval(0.95, n - 1, np.mean(FIRST[:n]), stats.sem(FIRST[:n]))
    )


def test_one_pair_has_a_difference_and_no_certainty() -> None:
    difference = paired_difference([1.0], [1.5])
    assert (difference.mean, difference.interval, difference.p) == (0.5, None, None)
    assert not difference.identical


def test_equal_values_are_identical_and_a_constant_difference_is_certain() -> None:
    equal, shifted = paired_difference([1.0, 2.0], [1.0, 2.0]), paired_difference([1, 2], [2, 3])
    assert (equal.identical, equal.p, equal.interval) == (True, 1.0, (0.0, 0.0))
    assert (shifted.identical, shifted.p, shifted.interval) == (False, 0.0, (1.0, 1.0))


def test_holm_multiplies_the_smallest_most_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.02, None, 0.9]) == pytest.approx([0.04, None, 0.9])
    assert holm([0.8, 0.9]) == [1.0, 1.0]


def test_permutation_p_counts_all_signs_and_has_a_least_value() -> None:
    assert permute_signs([1.0] * 5) is None
    all_positive = permute_signs([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert all_positive is not None
    assert (all_positive.p, all_positive.least, all_positive.exact) == (2 / 64, 2 / 64, True)
    by_hand = [s for s in signed_means([0.1, -0.2, 0.3, 0.4, 0.5, 0.6]) if abs(s) >= 1.7 / 6 - 1e-9]
    mixed = permute_signs([0.1, -0.2, 0.3, 0.4, 0.5, 0.6])
    assert mixed is not None
    assert mixed.p == pytest.approx(len(by_hand) / 64)


def signed_means(values: list[float]) -> list[float]:
    signs = np.array([[1 - 2 * (i >> bit & 1) for bit in range(6)] for i in range(64)])
    return (signs @ np.array(values) / 6).tolist()


def test_many_pairs_are_permuted_by_a_sample_that_says_so() -> None:
    sampled = permute_signs([0.5] * 20)
    assert sampled is not None
    assert not sampled.exact
    assert sampled.p == pytest.approx(sampled.least, abs=3e-5)


@pytest.mark.parametrize(("effect", "n"), [(1.0, 10), (0.3, 40), (2.0, 4), (20.0, 2), (40.0, 2)])
def test_predicted_power_is_the_share_of_samples_that_show_it(effect: float, n: int) -> None:
    samples = np.random.default_rng(3).normal(effect, 1.0, size=(4000, n))
    share = float(np.mean(stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05))
    assert power(effect, n) == pytest.approx(share, abs=4 * math.sqrt(0.25 / 4000))


def test_seeds_needed_is_the_first_number_with_that_power() -> None:
    n_seeds = seeds_needed(0.5, 1.0)
    assert n_seeds == 34  # Cohen 1988 has 34 for a paired t-test with d = 0.5
    assert power(0.5, n_seeds) >= 0.8 > power(0.5, n_seeds - 1)
    assert (seeds_needed(0.0, 1.0), seeds_needed(1e-9, 1.0), seeds_needed(1.0, 0.0)) == (
        None,
        None,
        2,
    )


def test_missing_library_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(LibraryError, match=r"scipy, .*pip install -U \"pellucid\[lab\]\""):
        mean_interval([1.0, 2.0])


@pytest.mark.parametrize("n", [2, 3, 9])
def test_detectable_difference_is_the_one_with_that_power(n: int) -> None:
    smallest = detectable_difference(0.5, n)
    assert smallest is not None
    assert power(smallest / 0.5, n) == pytest.approx(0.8, abs=2e-3)
    assert detectable_difference(0.5, 1) is None
