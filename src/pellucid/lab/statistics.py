"""Paired statistics: intervals, p-values, and how many seeds a difference needs.

Student's t of the differences of pairs. scipy has the distributions and the permutation test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.extras import import_extra

#: Half of the chance that an interval misses lies on each side of it.
LEVEL = 0.95
#: From so many pairs on, the permutation test can reach p < 0.05: 2 / 2^6 = 0.03.
LEAST_PERMUTED = 6
#: Up to so many pairs all 2^n signs are tried; above, a fixed random sample of them.
_MOST_EXACT = 16
_SAMPLED_SIGNS = 99_999
#: The chance with which `seeds_needed` seeds show the difference.
POWER = 0.8
#: The noncentral t cannot be computed for larger shifts. There the noise of the mean is much
#: smaller than the shift, and P(|T| > limit) = P(s < shift / limit), a chi-square.
_LARGEST_SHIFT = 30.0
#: Two pairs show an effect of 11.6 with a chance of 80%, and more pairs smaller ones.
_LARGEST_EFFECT = 20.0
#: More seeds than this are not counted.
MOST_SEEDS = 10_000

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Permutation:
    """The p-value of flipped signs, and the smallest value that it could have with these pairs.

    It is exact if all signs were tried, and else an estimate from a fixed random sample of them.

    Attributes:
        p: the p-value.
        least: the smallest that these pairs allow.
        exact: whether all signs were tried.
    """

    p: float
    least: float
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The mean of paired differences with its 95% interval and p-values.

    `interval` and `p` are None with fewer than two pairs, `permutation` with fewer than six.
    `n_needed` is how many seeds would show a difference of this size in 4 of 5 comparisons; None if
    one pair cannot show it, or if it is more than 10,000.

    Attributes:
        mean: of the differences, in the unit of the measure.
        n: how many pairs there are.
        deviation: the standard deviation of the differences.
        identical: whether every difference is 0.
    """

    mean: float
    n: int
    deviation: float | None
    interval: Interval | None
    p: float | None
    permutation: Permutation | None
    n_needed: int | None
    identical: bool


def mean_interval(values: Sequence[float]) -> Interval | None:
    """m -+ t s / sqrt(n): the 95% interval of a mean; None for fewer than two values.

    Source: Student 1908, "The Probable Error of a Mean".
    """
    if len(values) < 2:
        return None
    mean, error = _mean(values), _deviation(values) / math.sqrt(len(values))
    reach = float(_scipy_stats().t.ppf((1 + LEVEL) / 2, len(values) - 1)) * error
    return mean - reach, mean + reach


def paired_difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """The second minus the first value of each pair, as a mean with its certainty.

    Args:
        first: the values of one side, a value for each seed.
        second: the values of the other side, for the same seeds.
    """
    differences = [b - a for a, b in zip(first, second, strict=True)]
    n = len(differences)
    mean = _mean(differences) if n else math.nan
    deviation = _deviation(differences) if n > 1 else None
    return Difference(
        mean=mean,
        n=n,
        deviation=deviation,
        interval=mean_interval(differences),
        p=None if deviation is None else _student_p(mean, deviation, n),
        permutation=permute_signs(differences),
        n_needed=None if deviation is None else seeds_needed(mean, deviation),
        identical=n > 0 and not any(differences),
    )


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down: p-values that hold for all comparisons together, in their order.

    None stays None, and does not count.

    Source: Holm 1979, "A Simple Sequentially Rejective Multiple Test Procedure".
    """
    ranked = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(ranked):
        largest = max(largest, min(1.0, p * (len(ranked) - rank)))
        adjusted[i] = largest
    return adjusted


def permute_signs(differences: Sequence[float]) -> Permutation | None:
    """The share of sign flips whose mean is at least as far from 0; None for fewer than six pairs.

    Without a difference between the sides each sign is as likely as its opposite.

    Source: Fisher 1935, "The Design of Experiments", section 21.
    """
    n = len(differences)
    if n < LEAST_PERMUTED:
        return None
    exact = n <= _MOST_EXACT
    result: Any = _scipy_stats().permutation_test(
        (np.asarray(differences, dtype=np.float64),),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=2**n if exact else _SAMPLED_SIGNS,
        batch=2**12,
        axis=0,
        rng=np.random.default_rng(0),
    )
    least = 2 / 2**n if exact else 2 / (_SAMPLED_SIGNS + 1)
    return Permutation(p=float(result.pvalue), least=least, exact=exact)


def power(effect: float, n: int) -> float:
    """The chance that n pairs show an effect (mean / deviation) at p < 0.05: a noncentral t.

    Source: Cohen 1988, "Statistical Power Analysis for the Behavioral Sciences", section 2.2.
    """
    if n < 2:
        return 0.0
    stats = _scipy_stats()
    limit, shift = float(stats.t.ppf((1 + LEVEL) / 2, n - 1)), abs(effect) * math.sqrt(n)
    if shift > _LARGEST_SHIFT:
        return float(stats.chi2.cdf((n - 1) * (shift / limit) ** 2, n - 1))
    upper, lower = stats.nct.sf(limit, n - 1, shift), stats.nct.cdf(-limit, n - 1, shift)
    return float(upper) + (float(lower) if math.isfinite(lower) else 0.0)


def seeds_needed(mean: float, deviation: float) -> int | None:
    """The fewest seeds that show a difference of this size with a chance of 80%.

    Args:
        mean: the difference.
        deviation: the standard deviation of paired differences.
    """
    if deviation == 0:
        return 2 if mean else None
    effect = abs(mean) / deviation
    if power(effect, MOST_SEEDS) < POWER:
        return None
    low, high = 1, MOST_SEEDS  # the power grows with n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(effect, middle) >= POWER else (middle, high)
    return high


def detectable_difference(deviation: float, n: int) -> float | None:
    """The smallest difference that n pairs show with a chance of 80%; None for fewer than two.

    Args:
        deviation: the standard deviation of paired differences.
        n: the number of pairs.
    """
    if n < 2:
        return None
    low, high = 0.0, _LARGEST_EFFECT  # the power grows with the effect
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, n) >= POWER else (middle, high)
    return high * deviation


def _student_p(mean: float, deviation: float, n: int) -> float:
    if deviation == 0:
        return 0.0 if mean else 1.0
    return float(2 * _scipy_stats().t.sf(abs(mean) / deviation * math.sqrt(n), n - 1))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _deviation(values: Sequence[float]) -> float:
    mean = _mean(values)
    if all(value == values[0] for value in values):
        return 0.0
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _scipy_stats() -> Any:
    return import_extra("lab", "scipy.stats")
