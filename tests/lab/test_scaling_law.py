"""The law finds planted constants within its intervals, and says what runs do not determine."""

from __future__ import annotations

import numpy as np
import pytest

from pellucid.lab.best_size import LARGEST_TRIED, best_sizes
from pellucid.lab.scaling_law import Law, Point, fit_law

PLANTED = {"E": 1.2, "A": 40.0, "B": 300.0, "a": 0.35, "b": 0.45}


def loss(n: float, d: float) -> float:
    return PLANTED["E"] + PLANTED["A"] / n ** PLANTED["a"] + PLANTED["B"] / d ** PLANTED["b"]


def runs(seed: int, *, noise: float, n_sizes: int = 5, n_lengths: int = 4) -> list[Point]:
    random = np.random.default_rng(seed)
    return [
        Point(n, d, loss(n, d) * float(np.exp(noise * random.normal())))
        for n in 1e5 * 2.0 ** np.arange(n_sizes)
        for d in 4e5 * 2.0 ** np.arange(n_lengths)
    ]


@pytest.fixture(scope="module")
def laws() -> list[Law]:
    """The laws of four ladders with other noise."""
    laws = [fit_law(runs(seed, noise=0.002)) for seed in range(4)]
    return [law for law in laws if law is not None]


def test_planted_constants_lie_within_their_intervals(laws: list[Law]) -> None:
    is_inside = [
        low <= PLANTED[constant.name] <= high
        for law in laws
        for constant in law.constants()
        for low, high in [constant.interval]
    ]
    assert len(is_inside) == 20
    assert np.mean(is_inside) >= 0.85
    assert not any(constant.doubt for law in laws for constant in law.constants())


def test_a_larger_size_is_predicted_within_its_interval(laws: list[Law]) -> None:
    truth = loss(3.2e6, 6.4e6)
    intervals = [law.interval(3.2e6, 6.4e6) for law in laws]
    assert sum(low <= truth <= high for low, high in intervals) >= 3
    assert all(high - low < 0.1 * truth for low, high in intervals)
    for law in laws:
        assert law.losses([3.2e6], [6.4e6])[0] == pytest.approx(truth, rel=0.03)


def test_one_bad_run_does_not_bend_the_law() -> None:
    points = runs(0, noise=0.001)
    points[7] = points[7]._replace(loss=points[7].loss * 1.5)
    law = fit_law(points)
    assert law is not None
    assert law.losses([3.2e6], [6.4e6])[0] == pytest.approx(loss(3.2e6, 6.4e6), rel=0.03)


def test_more_seeds_make_the_interval_of_their_mean_narrower(laws: list[Law]) -> None:
    (low, high), (low_of_four, high_of_four) = (laws[0].interval(8e5, 1.6e6, n) for n in (1, 4))
    assert high_of_four - low_of_four < high - low


def test_a_law_that_runs_do_not_determine_says_so() -> None:
    law = fit_law(runs(1, noise=0.02, n_sizes=3, n_lengths=3))
    assert law is not None
    doubts = {constant.name: constant.doubt for constant in law.constants()}
    assert doubts["E"]
    assert bool(doubts["A"]) == bool(doubts["a"])
    assert bool(doubts["B"]) == bool(doubts["b"])


def test_a_loss_that_does_not_depend_on_size_leaves_a_open() -> None:
    points = [point._replace(loss=2 + 300 / point.n_tokens**0.45) for point in runs(0, noise=0)]
    noisy = [
        point._replace(loss=point.loss * float(np.exp(0.003 * noise)))
        for point, noise in zip(points, np.random.default_rng(5).normal(size=20), strict=True)
    ]
    law = fit_law(noisy)
    assert law is not None
    assert {constant.name: constant.doubt for constant in law.constants()}["a"]


@pytest.mark.parametrize(
    "points",
    [
        runs(0, noise=0.01, n_sizes=2, n_lengths=4),
        runs(0, noise=0.01, n_sizes=4, n_lengths=2),
        runs(0, noise=0.01)[:6],
    ],
)
def test_too_few_runs_have_no_law(points: list[Point]) -> None:
    assert fit_law(points) is None


def test_the_best_size_is_where_the_predicted_loss_is_lowest(laws: list[Law]) -> None:
    speeds = {n: 1 / (2e-6 + 1e-11 * n) for n in (100_000, 400_000, 1_600_000)}
    (best, longer) = best_sizes(laws[0], speeds, [0.1, 1.0], 3.2e6)
    sizes = np.geomspace(1e5, 6.4e6, 500)
    by_truth = sizes[np.argmin([loss(n, 6 / (2e-6 + 1e-11 * n)) for n in sizes])]
    assert best.n_weights == pytest.approx(by_truth, rel=0.35)
    assert best.interval[0] <= best.n_weights <= best.interval[1]
    assert longer.n_weights > best.n_weights
    assert best.n_tokens == pytest.approx(6 * 1 / (2e-6 + 1e-11 * best.n_weights), rel=1e-3)
    assert not best.limits


def test_a_best_size_beyond_what_was_trained_is_only_a_bound(laws: list[Law]) -> None:
    speeds = {100_000: 1e6, 200_000: 1e6}
    (best,) = best_sizes(laws[0], speeds, [600.0], 3.2e6)
    assert best.n_weights == pytest.approx(LARGEST_TRIED * 200_000)
    assert any("a larger one may be better" in limit for limit in best.limits)
    assert any("times the tokens of the longest run" in limit for limit in best.limits)
