"""The best size for a budget in minutes on this machine: by a law and the measured speeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.extras import import_extra
from pellucid.lab.scaling_law import Array, Law, quantiles
from pellucid.lab.statistics import Interval

#: Sizes are tried from the smallest run's to so many times the largest one's.
LARGEST_TRIED = 4.0
_TRIED = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSize:
    """The size with the lowest predicted loss after `minutes` of training.

    `limits` say where the prediction leaves the range of the runs.
    """

    minutes: float
    n_weights: float
    interval: Interval
    n_tokens: float
    loss: float
    loss_interval: Interval
    limits: tuple[str, ...] = ()


def best_sizes(
    law: Law, speeds: Mapping[int, float], budgets: Sequence[float], most_tokens: float
) -> tuple[BestSize, ...]:
    """The best size for each budget.

    Args:
        law: the law.
        speeds: the tokens per second of each size that was trained; at least two sizes.
        budgets: minutes of updates; evaluations and checkpoints come on top.
        most_tokens: of the longest run.
    """
    if len(speeds) < 2:
        return ()
    tried = np.geomspace(min(speeds), LARGEST_TRIED * max(speeds), _TRIED)
    per_second = _speeds(speeds, tried)
    return tuple(_best(law, tried, per_second, minutes, most_tokens) for minutes in budgets)


def _best(
    law: Law, tried: Array, per_second: Array, minutes: float, most_tokens: float
) -> BestSize:
    tokens = 60 * minutes * per_second
    best = int(law.losses(tried, tokens).argmin())
    low, high = quantiles(tried[law.sampled_losses(tried, tokens).argmin(1)])
    n_weights, n_tokens = float(tried[best]), float(tokens[best])
    limits: list[str] = []
    if best == 0:
        limits.append("the smallest size of the ladder is the best one: try smaller ones")
    if high == tried[-1]:
        limits.append(
            f"the interval ends at {LARGEST_TRIED:g} times the largest size that was trained, "
            "where the search ends: a larger one may be better"
        )
    if n_tokens > LARGEST_TRIED * most_tokens:
        limits.append(f"this is {n_tokens / most_tokens:.0f} times the tokens of the longest run")
    return BestSize(
        minutes=minutes,
        n_weights=n_weights,
        interval=(low, high),
        n_tokens=n_tokens,
        loss=float(law.losses([n_weights], [n_tokens])[0]),
        loss_interval=law.interval(n_weights, n_tokens),
        limits=tuple(limits),
    )


def _speeds(speeds: Mapping[int, float], tried: Array) -> Array:
    """The speed of every size: a token costs a fixed time, and a time for each weight."""
    sizes = np.array(list(speeds), dtype=np.float64)
    seconds = 1 / np.array(list(speeds.values()))
    terms = np.stack([np.ones_like(sizes), sizes], axis=1)
    # each equation is divided by its seconds, so that relative errors count
    costs, _ = import_extra("lab", "scipy.optimize").nnls(
        terms / seconds[:, None] * seconds.min(), np.full_like(seconds, seconds.min())
    )
    return 1 / (costs[0] + costs[1] * tried)
