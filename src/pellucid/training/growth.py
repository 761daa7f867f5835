"""Sizes that grow: how many rows an update learns from, or how long the pieces of them are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from pellucid import config


@dataclass(frozen=True, slots=True)
class Stages:
    """A size that doubles: stage i starts after `starts[i]` updates and has `sizes[i]`.

    Source:
        Li, Zhang and He 2022, "The Stability-Efficiency Dilemma: Investigating Sequence Length
        Warmup for Training GPT Models", grow the length; Brown et al. 2020, "Language Models are
        Few-Shot Learners", section 2.3, the batch. Both grow in small steps; doublings leave
        nothing over when rows are cut.
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    def size_after(self, moment: float) -> int:
        """The size of the update that follows `moment` updates."""
        return self.sizes[bisect_right(self.starts, moment) - 1]

    def before(self, step: int, updates_before: Callable[[int], int] | None = None) -> int:
        """The sum of the sizes of the first `step` updates.

        `updates_before` says how many of these updates come before the start of a stage.
        """
        bounds = [
            min(start, step) if updates_before is None else updates_before(start)
            for start in self.starts
        ] + [step]
        return sum(
            size * (end - start)
            for size, (start, end) in zip(self.sizes, pairwise(bounds), strict=True)
        )


def stages(growth: config.Growth | None, full_size: int, total: int) -> Stages:
    """The stages from the first size to the full size; only one if nothing grows.

    Args:
        growth: the first size, and the share of the updates in which it grows.
        full_size: the last size.
        total: how many updates the run has.
    """
    if growth is None:
        return Stages((0,), (full_size,))
    sizes = _sizes(growth, full_size)
    doublings = len(sizes) - 1
    # rounded down: a run sees at least as many rows as `mean_rows` says
    starts = (int(growth.until * total * n / doublings) for n in range(len(sizes)))
    return Stages(tuple(starts), sizes)


def mean_rows(settings: config.Training) -> float:
    """The mean number of rows of an update, over a whole run."""
    growth, full_size = settings.growth, settings.batch_size
    if not isinstance(growth, config.GrowingBatch):
        return full_size
    growing = _sizes(growth, full_size)[:-1]
    return growth.until * sum(growing) / len(growing) + (1 - growth.until) * full_size


def _sizes(growth: config.Growth, full_size: int) -> tuple[int, ...]:
    """The first size, doubled until it is the full size."""
    return tuple(growth.first << n for n in range((full_size // growth.first).bit_length()))
