"""The same curve on any number of ranks, whether each holds all weights or a share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pellucid.parallel import World
from support.rank_cases import ALL_CASES, LAYOUTS, RANK_CASES, gradients_of, losses_of
from support.ranks import run_cases


def worst_difference(ours: Any, theirs: Any) -> float:
    pairs = zip(ours, theirs, strict=True)
    return max(abs(a - b) for first, second in pairs for a, b in zip(first, second, strict=True))


def differences(found: dict[str, Any], names: list[str], updates: int) -> dict[str, float]:
    """How far each case is from one process, over all ways of sharding."""
    losses_alone = {name: losses_of(ALL_CASES[name], World(), updates=updates) for name in names}
    return {
        full_name: worst_difference(losses_alone[full_name.partition("/")[2]], losses)
        for full_name, losses in found.items()
    }


def worst_gradient(found: dict[str, dict[str, list[float]]]) -> float:
    """The largest difference from one process's gradient, over its largest number."""
    worst = 0.0
    for full_name, gradients in found.items():
        gradients_alone = gradients_of(ALL_CASES[full_name.partition("gradients of ")[2]], World())
        assert gradients.keys() == gradients_alone.keys()
        for name, own_gradient in gradients.items():
            scale = max(1.0, max(map(abs, gradients_alone[name])))
            pairs = zip(own_gradient, gradients_alone[name], strict=True)
            worst = max(worst, *(abs(a - b) / scale for a, b in pairs))
    return worst


def test_two_ranks_learn_as_one_and_stop_together_on_a_value_not_finite(tmp_path: Path) -> None:
    gradient_cases = ["tensor/gradients of untied", "offload/gradients of untied"]
    full_names = ["none/next token", "full/next token", "full/Muon", "none/poisoned"]
    results = run_cases(2, full_names + gradient_cases, tmp_path, updates=4)
    gradients = {name: results.pop(name) for name in gradient_cases}
    assert worst_gradient(gradients) < 2e-6
    poisoned = results.pop("none/poisoned")
    worst = differences(results, ["next token", "Muon"], 4)
    assert max(worst.values()) < 1e-5, worst
    assert poisoned["blocked"] == [[0.0, 0.0, 1.0, 1.0]] * 2
    assert poisoned["finite"]
    assert poisoned["culprits"][0] == poisoned["culprits"][1]
    assert poisoned["culprits"][0][0] in ("loss", "gradient")


@pytest.mark.nightly
@pytest.mark.parametrize("shard", ["none", "full"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_objective_and_optimiser_learns_alike(size: int, shard: str, tmp_path: Path) -> None:
    names = list(RANK_CASES if shard == "full" else ALL_CASES)
    found = run_cases(size, [f"{shard}/{name}" for name in names], tmp_path, updates=40)
    worst = differences(found, names, 40)
    assert max(worst.values()) < 1e-4, worst


@pytest.mark.nightly
def test_every_layout_of_four_ranks_has_the_gradients_of_one_process(tmp_path: Path) -> None:
    layouts = [name for name in LAYOUTS if "narrow" not in name]
    names = [f"{layout}/gradients of {case}" for layout in layouts for case in ("untied", "tied")]
    found = run_cases(4, names, tmp_path, updates=1)
    assert len(found) == len(names) == 16
    assert worst_gradient(found) < 2e-6


@pytest.mark.nightly
def test_narrow_types_stay_close(tmp_path: Path) -> None:
    layouts = [name for name in LAYOUTS if "narrow" in name]
    found = run_cases(2, [f"{layout}/untied" for layout in layouts], tmp_path, updates=4)
    worst = differences(found, ["untied"], 4)
    assert 0 < min(worst.values()) < max(worst.values()) < 2e-2, worst
