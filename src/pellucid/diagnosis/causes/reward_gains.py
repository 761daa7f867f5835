"""What a policy has gained of its rewards, once its training is over.

A gain is measured in standard deviations of the rewards within a group: their unit does not matter.
"""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from typing import NamedTuple

from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit
from pellucid.diagnosis.logs.statistics import bend

#: The record is compared in so many parts.
PARTS = 4


class Rewards(NamedTuple):
    """The mean rewards at the start and at their best later, and the gain.

    The gain is in deviations of single rewards, and in standard errors as the noise from row to row
    tells them; the latter is None without noise. `largest_gain` is what the second half may have
    gained, in deviations: what it has, and a standard error. `is_of_means` says whether only the
    noise of mean rewards told the deviation.
    """

    start: float
    best: float
    gain: float
    errors: float | None
    largest_gain: float
    is_of_means: bool = False


def rewards_of(view: HistoryView) -> Rewards | None:
    """The rewards of a training that is over and was seen from its beginning; None if unknown.

    Rewards that differ little, for their size, may be as good as they can be.
    """
    points, total = view.history.measures.get("reward", ()), view.facts.total_steps
    # a whole batch has a larger deviation than its groups, which is better than none
    deviations = view.measure("reward_spread") or view.measure("reward_deviation")
    spreads = [spread for spread in deviations if spread > 0]
    if not deviations:
        spreads = _spread_of_means(view)
    is_over = total is not None and view.updates >= limit("RLH012", "share") * total
    if not view.facts.on_rewards or not is_over or len(points) < PARTS or not spreads:
        return None
    (first_step, _), (second_step, _) = points[:2]
    is_whole = first_step <= 2 * (second_step - first_step)
    if not is_whole or view.updates < limit("RLH012", "updates"):
        return None
    size = len(points) // PARTS
    part_means = [
        statistics.fmean(value for _, value in points[i * size : (i + 1) * size])
        for i in range(len(points) // size)
    ]
    start, best, spread = part_means[0], max(part_means[1:]), statistics.median(spreads)
    if spread < limit("RLH012", "spread") * abs(start):
        return None
    deviation = _noise_of_rows(view)
    error = deviation * math.sqrt(2 / size)
    errors = (best - start) / error if error else math.inf if best > start else None
    late = statistics.fmean(value for _, value in points[len(points) // 2 :])
    late_error = deviation * math.sqrt(1 / size + 1 / (len(points) - len(points) // 2))
    largest_gain = (late - start + late_error) / spread
    return Rewards(start, best, (best - start) / spread, errors, largest_gain, not deviations)


def _noise_of_rows(view: HistoryView) -> float:
    """The standard deviation of single rows, around any line."""
    return 1.4826 * bend(view.measure("reward")) / math.sqrt(6)


def _spread_of_means(view: HistoryView) -> list[float]:
    """The deviation of single rewards as their means tell it, if these show no trend; else none.

    A mean of n rewards deviates by an n-th of their variance. Prompts that are easier than others
    add to it, and could hide a gain: so the means may not rise by more than a standard error.
    """
    n, rewards = view.first("answers.rows"), view.measure("reward")
    deviation, size = _noise_of_rows(view), len(rewards)
    if not n or not deviation or size < limit("RLH012", "means"):
        return []
    slope = statistics.linear_regression(range(size), rewards).slope
    error = deviation * math.sqrt(12 / (size * (size**2 - 1)))
    return [] if slope > error else [deviation * math.sqrt(n)]


def has_gained(view: HistoryView) -> bool:
    """Whether the rewards rose by far more than they differ, and are as high at the end.

    Then long steps have torn nothing that the policy needs.
    """
    rewards, values = rewards_of(view), view.measure("reward")
    if rewards is None or rewards.gain < limit("OPT005", "gained"):
        return False
    end = statistics.fmean(values[-(len(values) // PARTS) :])
    return end >= rewards.best - limit("OPT005", "lost") * (rewards.best - rewards.start)


def follows_length(view: HistoryView) -> float | None:
    """The correlation of mean rewards with mean lengths, from row to row; None if unknown.

    Changes between rows count: two curves that both rise are alike without them. Where the reward
    of each answer was passed, the first batch tells it.
    """
    measures = view.history.measures
    lengths, rewards = dict(measures.get("length", ())), dict(measures.get("reward", ()))
    steps = sorted(lengths.keys() & rewards.keys())
    if len(steps) < limit("RLH008", "rows"):
        return view.first("answers.by_length")
    changes = [(lengths[b] - lengths[a], rewards[b] - rewards[a]) for a, b in pairwise(steps)]
    changes = [change for change in changes if change != (0, 0)]
    longer, better = ([change[i] for change in changes] for i in (0, 1))
    if len(changes) < limit("RLH008", "changes") or 1 in (len({*longer}), len({*better})):
        return None
    return statistics.correlation(longer, better)


def has_advantages(view: HistoryView) -> bool:
    """Whether the loss moves from update to update, as it cannot where no answer is better.

    Where all advantages are 0, so is the loss, but for the rounding of their division. Where the
    rewards of single answers were passed, these say more.
    """
    losses = view.losses if view.first("answers.judged") is None else []
    return len(losses) >= PARTS and statistics.pstdev(losses) > limit("RLH001", "loss")
