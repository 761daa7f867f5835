"""Whether answers with a higher reward become likelier, where a loop passes the reward of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import correlation

import torch
from torch import Tensor

from pellucid.typed import to_list
from pellucid.vitals.call.answer_rows import RowReadings, first_rows_of

#: Fewer comparisons agree by chance.
_FEWEST = 8
#: Advantages, or rewards, that differ by less than this share of their size are equal.
_EQUAL = 1e-3
#: Answers of fewer lengths follow a line by chance.
_LENGTHS = 4
#: A loop passes the reward of each answer by one of these names.
REWARDS = ("reward", "rewards", "train/reward", "train/rewards")


class FirstRewards:
    """The rewards of the first update's answers, which a loop passes before its step or after."""

    def __init__(self) -> None:
        self._rewards: Tensor | None = None
        #: what they are compared with, if the first update ended without them
        self._waiting: tuple[list[int], dict[int, RowReadings], Tensor | None] | None = None
        self._is_open = True

    def take(self, rewards: Tensor) -> None:
        """Keep the rewards of the rows of an update; the last ones count.

        Args:
            rewards: (rows).
        """
        if self._is_open:
            self._rewards = rewards

    @property
    def is_waiting(self) -> bool:
        """Whether the first update ended without its rewards, and the next one has not ended."""
        return self._waiting is not None

    def close(self) -> None:
        """A training call of the next update comes: its rewards are of other answers."""
        if self._waiting is not None:
            self._is_open = False

    def compare(
        self, n_rows: Sequence[int], readings: Mapping[int, RowReadings], prompts: Tensor | None
    ) -> dict[str, float]:
        """The signs of the first update's rewards; none before they are passed.

        Args:
            n_rows: How many rows each call has.
            readings: What the gradients showed of some rows; empty if rows are in another order.
            prompts: The prompts of the rows of the first call, if they are known.
        """
        if self._rewards is None:
            self._waiting = ([*n_rows], dict(readings), prompts) if readings else None
            return {}
        signs = judged_prompts(self._rewards, prompts)
        return signs | compare_rewards(self._rewards, n_rows, readings, prompts)

    def compare_late(self) -> dict[str, float]:
        """The signs of rewards that were passed between the first step and the next update."""
        waiting, self._waiting, self._is_open = self._waiting, None, False
        if waiting is None or self._rewards is None:
            return {}
        return self.compare(*waiting)


def rows_of_rewards(numbers: Mapping[str, Tensor | float]) -> Tensor | None:
    """The rewards of several answers among the numbers that a loop passes; None without them."""
    for name in REWARDS:
        value = numbers.get(name)
        if isinstance(value, Tensor) and value.numel() > 1 and not value.is_complex():
            return value.detach().flatten()
    return None


def agreement(
    weights: Sequence[float], rewards: Sequence[float], prompts: Sequence[int]
) -> float | None:
    """Of two answers to a prompt, how often the one with the higher reward weighs more.

    Args:
        weights: What each answer weighs in the first gradient, negative where it becomes less
            likely; not finite if unknown.
        rewards: The reward of each.
        prompts: A number for the prompt of each: answers to other prompts have other baselines.
    """
    weighed_rows = [
        row for row in zip(weights, rewards, prompts, strict=True) if abs(row[0]) < torch.inf
    ]
    size = max((abs(weight) for weight, _, _ in weighed_rows), default=0.0)
    span = max((abs(reward) for _, reward, _ in weighed_rows), default=0.0)
    n_agreeing = n = 0
    for i, (weight, reward, prompt) in enumerate(weighed_rows):
        for other_weight, other_reward, other_prompt in weighed_rows[:i]:
            gap, rise = weight - other_weight, reward - other_reward
            if prompt == other_prompt and abs(gap) > _EQUAL * size and abs(rise) > _EQUAL * span:
                n += 1
                n_agreeing += (gap > 0) == (rise > 0)
    return n_agreeing / n if n >= _FEWEST else None


def judged_prompts(rewards: Tensor, prompts: Tensor | None) -> dict[str, float]:
    """The sign `answers.judged`: the share of the prompts whose answers differ in reward.

    Args:
        rewards: The reward of each row.
        prompts: The prompt (rows, start) of each, if it is known.
    """
    if prompts is None or len(prompts) != len(rewards):
        return {}
    values: list[float] = to_list(rewards)
    groups: dict[int, list[float]] = {}
    for first_row, value in zip(first_rows_of(prompts), values, strict=True):
        groups.setdefault(first_row, []).append(value)
    least = _EQUAL * max(map(abs, values), default=0.0)
    n_judged = sum(max(group) - min(group) > least for group in groups.values())
    return {"answers.judged": n_judged / len(groups)}


def compare_rewards(
    rewards: Tensor,
    n_rows: Sequence[int],
    readings: Mapping[int, RowReadings],
    prompts: Tensor | None,
) -> dict[str, float]:
    """The signs `answers.agreement` and `answers.by_length`, if each row has one reward.

    Args:
        rewards: The rewards of all rows.
        n_rows: How many rows each call has.
        readings: What the gradients of some calls showed of some of their rows.
        prompts: The prompts of the rows of the first call, if they are known.
    """
    if len(rewards) != sum(n_rows) or not readings:
        return {}
    places, weights, groups = list[int](), list[float](), list[int]()
    lengths = list[float]()
    for call, reading in sorted(readings.items()):
        if not 0 <= call < len(n_rows):
            continue
        rows: list[int] = to_list(reading.rows)
        places += [sum(n_rows[:call]) + row for row in rows]
        weights += to_list(reading.weights)
        no_lengths = torch.zeros(len(rows))
        lengths += to_list(no_lengths if reading.n_tokens is None else reading.n_tokens)
        first_rows = first_rows_of(prompts) if call == 0 and prompts is not None else None
        groups += [-1 if first_rows is None else first_rows[row] for row in rows]
    values: list[float] = to_list(rewards)
    row_rewards = [values[place] for place in places]
    signs = {
        "answers.agreement": agreement(weights, row_rewards, groups),
        "answers.by_length": follow_lengths(row_rewards, lengths),
    }
    return {name: value for name, value in signs.items() if value is not None}


def follow_lengths(rewards: Sequence[float], lengths: Sequence[float]) -> float | None:
    """The correlation of rewards with lengths of answers; None if too few are known, or differ.

    Args:
        rewards: The reward of each answer.
        lengths: How many tokens of each are paid for; 0 if that is unknown.
    """
    answers = [row for row in zip(lengths, rewards, strict=True) if row[0] > 0]
    sizes, values = [size for size, _ in answers], [value for _, value in answers]
    if len(answers) < _FEWEST or len({*sizes}) < _LENGTHS or len({*values}) < 2:
        return None
    return correlation(sizes, values)
