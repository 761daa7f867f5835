"""The benchmark of comparisons counts what it says, and its interval knows of shared runs."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
from benchmarks.compare import Rate, false_rate, found_rate, is_different, measure

from pellucid.lab import power


def test_equal_configs_are_called_different_in_one_of_twenty() -> None:
    rates = [
        false_rate(np.random.default_rng(seed).normal(size=120).tolist(), 5, 300, seed)
        for seed in range(3)
    ]
    for rate in rates:
        assert rate.low <= 0.05 <= rate.high
        assert (rate.n_comparisons, rate.n_runs) == (300, 120)


def test_the_interval_is_wider_if_few_runs_make_the_comparisons() -> None:
    values = np.random.default_rng(4).normal(size=200).tolist()
    from_many, from_few = false_rate(values, 5, 600), false_rate(values[:40], 5, 600)
    assert from_few.high - from_few.low > from_many.high - from_many.low


def test_a_better_config_is_found_as_often_as_predicted() -> None:
    random = np.random.default_rng(6)
    first = random.normal(size=400)
    second = first + random.normal(-0.8, 1.0, size=400)
    differences = second - first
    effect = float(differences.mean() / differences.std(ddof=1))
    rate = found_rate(first.tolist(), second.tolist(), 8, 800)
    assert rate.share == pytest.approx(power(effect, 8), abs=0.06)


def test_a_pool_without_enough_runs_is_refused() -> None:
    with pytest.raises(SystemExit, match="give a larger pool"):
        false_rate([1.0, 1.1, 0.9, 1.2], 2, 20)


def test_a_difference_is_one_that_leaves_out_zero() -> None:
    assert is_different([1.0, 1.1, 0.9], [2.0, 2.1, 1.95])
    assert not is_different([1.0, 1.1, 0.9], [1.05, 0.9, 1.1])


@pytest.mark.slow
def test_pools_are_trained_and_counted(tmp_path: Path) -> None:
    arguments = argparse.Namespace(
        pool=8, better=4, steps=10, seeds=[2], comparisons=20, workers=1, runs=tmp_path
    )
    result = measure(arguments)
    assert len(result["values"]["pool"]) == 8
    assert result["values"]["pool"][:4] == result["values"]["base"]
    assert 0 <= Rate(**result["rows"][0]["false"]).share <= 1
