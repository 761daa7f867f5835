"""The law of scaling, L = E + A / N^a + B / D^b, fitted to the losses of runs.

N counts the weights of a model, D the tokens that it has learnt from. The fit is Huber's on
logarithms, so that one bad run does not bend it; the intervals are from a bootstrap of residuals.

Source: Hoffmann et al. 2022, "Training Compute-Optimal Large Language Models", section 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pellucid.extras import import_extra
from pellucid.lab.statistics import LEVEL, Interval

Array = npt.NDArray[np.float64]

#: The constants in the order in which they are fitted: log E, log A, log B, a, b. There N and D
#: are in units of their geometric means, so that A and B do not depend on the exponents.
NAMES = ("E", "A", "B", "a", "b")
#: Fewer runs cannot tell five constants and their noise.
LEAST_RUNS = 7
#: Up to this relative error Huber's loss is quadratic, and from there on linear.
_QUADRATIC = 0.01
#: The exponents' bounds, and the least share of the smallest loss that E, A and B have.
_LARGEST_EXPONENT, _LEAST_SHARE = 3.0, 1e-4
_STARTS = tuple(product((0.2, 0.7), (0.1, 0.3, 0.8), (0.1, 0.3, 0.8)))
_SAMPLES = 200
#: Steps of a fit; one whose constants are not determined wanders on without a better loss.
_MOST_STEPS = 30


class Point(NamedTuple):
    """A run: its weights, the tokens it has learnt from, and its loss."""

    n_weights: float
    n_tokens: float
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A constant of the law, with N and D as they are counted.

    `doubt` says why the runs do not determine it, if they do not; A is open with a, and B with b.
    """

    name: str
    value: float
    interval: Interval
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A fitted law, with the fits to samples of the bootstrap.

    `residuals` are in logarithms, inflated for the five constants.

    Attributes:
        units: parameters and tokens are divided by these before the fit.
        fit: the five constants, (5,).
        samples: the constants of each fit of the bootstrap, (samples, 5).
        n_runs: how many runs the fit has.
    """

    units: tuple[float, float]
    fit: Array
    samples: Array
    residuals: Array
    n_runs: int

    def losses(self, n_weights: npt.ArrayLike, n_tokens: npt.ArrayLike) -> Array:
        """The expected losses.

        Args:
            n_weights: the weights of models [runs].
            n_tokens: the tokens of their training [runs].
        """
        return np.exp(_log_losses(self.fit, *self._logs(n_weights, n_tokens)))

    def sampled_losses(self, n_weights: npt.ArrayLike, n_tokens: npt.ArrayLike) -> Array:
        """The expected losses by every fit of the bootstrap [samples, runs]."""
        logs = self._logs(n_weights, n_tokens)
        return np.exp(np.stack([_log_losses(sample, *logs) for sample in self.samples]))

    def interval(self, n_weights: float, n_tokens: float, n_seeds: int = 1) -> Interval:
        """Where the mean loss of new runs lies in 95% of cases: the law and the noise of runs.

        Args:
            n_weights: the weights of the model.
            n_tokens: the tokens of its training.
            n_seeds: how many runs the mean is of.
        """
        random = np.random.default_rng(1)
        noise = random.choice(self.residuals, (len(self.samples), n_seeds)).mean(1)
        return quantiles(self.sampled_losses([n_weights], [n_tokens])[:, 0] * np.exp(noise))

    def constants(self) -> tuple[Constant, ...]:
        """E, A, B, a and b with their intervals, and which of them the runs do not determine."""
        values, samples = (
            self._in_plain_units(self.fit[None])[0],
            self._in_plain_units(self.samples),
        )
        intervals = [quantiles(column) for column in samples.T]
        doubts = {NAMES[i]: self._doubt(i, *intervals[i]) for i in (0, 3, 4)}
        doubts |= {name: f"it depends on {name.lower()}" for name in "AB" if doubts[name.lower()]}
        return tuple(
            Constant(name=name, value=float(value), interval=interval, doubt=doubts.get(name, ""))
            for name, value, interval in zip(NAMES, values, intervals, strict=True)
        )

    def _doubt(self, i: int, low: float, high: float) -> str:
        """Why a constant is not determined by an interval, or nothing."""
        if NAMES[i] == "E":
            if low <= 10 * float(np.exp(self.fit[:3]).sum()) * _LEAST_SHARE:
                return "the runs fit without a floor too: its interval reaches 0"
        elif low <= 0.01 or high >= 0.99 * _LARGEST_EXPONENT:
            return f"its interval reaches the bounds of the fit, 0 and {_LARGEST_EXPONENT:g}"
        if high - low > self._in_plain_units(self.fit[None])[0, i]:
            return "its interval is wider than its value"
        return ""

    def _in_plain_units(self, fits: Array) -> Array:
        """E, A, B, a and b of fits [fits, 5]."""
        plain = fits.copy()
        plain[:, 1] += fits[:, 3] * math.log(self.units[0])
        plain[:, 2] += fits[:, 4] * math.log(self.units[1])
        plain[:, :3] = np.exp(plain[:, :3])
        return plain

    def _logs(self, n_weights: npt.ArrayLike, n_tokens: npt.ArrayLike) -> tuple[Array, Array]:
        return (
            np.log(np.asarray(n_weights, dtype=np.float64) / self.units[0]),
            np.log(np.asarray(n_tokens, dtype=np.float64) / self.units[1]),
        )


def fit_law(points: Sequence[Point]) -> Law | None:
    """The law that fits the runs best; None if they are too few or alike.

    Args:
        points: at least seven runs, of at least three sizes and three lengths.
    """
    n, d, losses = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
    if len(points) < LEAST_RUNS or min(len(set(n)), len(set(d))) < 3 or losses.min() <= 0:
        return None
    units = float(np.exp(np.log(n).mean())), float(np.exp(np.log(d).mean()))
    log_n, log_d, targets = np.log(n / units[0]), np.log(d / units[1]), np.log(losses)
    least, largest = math.log(losses.min()), math.log(losses.max())
    floor = least + math.log(_LEAST_SHARE)
    low = np.array([floor, floor, floor, 0.0, 0.0])
    high = np.array([least, largest + 3, largest + 3, _LARGEST_EXPONENT, _LARGEST_EXPONENT])

    def residuals_at(fit: Array, log_losses: Array) -> Array:
        return _log_losses(fit, log_n, log_d) - log_losses

    def slopes_at(fit: Array, log_losses: Array) -> Array:
        return _slopes(fit, log_n, log_d)

    def solve(log_losses: Array, start: Array) -> Any:
        return import_extra("lab", "scipy.optimize").least_squares(
            residuals_at,
            np.clip(start, low + 1e-6, high - 1e-6),
            args=(log_losses,),
            jac=slopes_at,
            bounds=(low, high),
            loss="huber",
            f_scale=_QUADRATIC,
            ftol=1e-6,
            xtol=1e-6,
            max_nfev=_MOST_STEPS,
        )

    starts = [
        np.array([least + math.log(e), *[least + math.log((1 - e) / 2)] * 2, a, b])
        for e, a, b in _STARTS
    ]
    fit = min((solve(targets, start) for start in starts), key=lambda result: result.cost).x
    expected = _log_losses(fit, log_n, log_d)
    residuals = (targets - expected) * _inflation(len(points))
    random = np.random.default_rng(0)
    samples = [
        solve(expected + random.choice(residuals - residuals.mean(), len(points)), fit).x
        for _ in range(_SAMPLES)
    ]
    return Law(
        units=units, fit=fit, samples=np.array(samples), residuals=residuals, n_runs=len(points)
    )


def _inflation(n_runs: int) -> float:
    """How much larger the noise of runs is than their residuals: five constants were fitted.

    As in Student's interval, the noise is itself known from few runs only.
    """
    stats = import_extra("lab", "scipy.stats")
    freedom, tail = n_runs - len(NAMES), (1 + LEVEL) / 2
    return math.sqrt(n_runs / freedom) * float(stats.t.ppf(tail, freedom) / stats.norm.ppf(tail))


def quantiles(values: Array) -> Interval:
    """The middle 95% of values."""
    low, high = np.quantile(values, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def _parts(fit: Array, log_n: Array, log_d: Array) -> Array:
    """The logarithms of the three terms of the law [3, runs]."""
    return np.stack([np.full_like(log_n, fit[0]), fit[1] - fit[3] * log_n, fit[2] - fit[4] * log_d])


def _log_losses(fit: Array, log_n: Array, log_d: Array) -> Array:
    return np.logaddexp.reduce(_parts(fit, log_n, log_d), axis=0)


def _slopes(fit: Array, log_n: Array, log_d: Array) -> Array:
    """How the logarithm of each loss changes with each constant [runs, 5]."""
    parts = _parts(fit, log_n, log_d)
    shares = np.exp(parts - np.logaddexp.reduce(parts, axis=0))
    return np.stack([*shares, -shares[1] * log_n, -shares[2] * log_d], axis=1)
