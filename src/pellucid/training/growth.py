"""What begins small: how many rows, or how long pieces of them, an update learns from.

Comes in: the loop's settings, how many updates there are. Goes out: sizes as functions of the
step. It does not know what the rows hold.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from pellucid import config


@dataclass(frozen=True, slots=True)
class Stages:
    """A size that doubles: stage i begins after `begins[i]` updates and has `sizes[i]`.

    Source:
        Li, Zhang and He 2022, "The Stability-Efficiency Dilemma: Investigating Sequence Length
        Warmup for Training GPT Models", grow the length; Brown et al. 2020, "Language Models are
        Few-Shot Learners", section 2.3, the batch. Both grow in small steps; doublings leave
        nothing over when rows are cut.
    """

    begins: tuple[int, ...]
    sizes: tuple[int, ...]

    def at(self, step: int) -> int:
        """The size of the update that follows `step` updates."""
        return self.sizes[bisect_right(self.begins, step) - 1]

    def before(self, step: int) -> int:
        """The sum of the sizes of the first `step` updates."""
        ends = [min(begin, step) for begin in self.begins] + [step]
        return sum(
            size * (end - begin)
            for size, (begin, end) in zip(self.sizes, pairwise(ends), strict=True)
        )


def stages(growth: config.Growth | None, whole: int, total: int) -> Stages:
    """From `growth.first` to `whole`, in `total` updates; `whole` all along where nothing grows."""
    if growth is None:
        return Stages((0,), (whole,))
    sizes = _sizes(growth, whole)
    doublings = len(sizes) - 1
    # rounded down: a run sees at least as many rows as `mean_rows` says
    begins = (int(growth.until * total * n / doublings) for n in range(len(sizes)))
    return Stages(tuple(begins), sizes)


def mean_rows(settings: config.Training) -> float:
    """Rows an update, over a whole run."""
    growth, whole = settings.growth, settings.batch_size
    if not isinstance(growth, config.GrowingBatch):
        return whole
    growing = _sizes(growth, whole)[:-1]
    return growth.until * sum(growing) / len(growing) + (1 - growth.until) * whole


def _sizes(growth: config.Growth, whole: int) -> tuple[int, ...]:
    """`growth.first`, doubled until it is `whole`."""
    return tuple(growth.first << n for n in range((whole // growth.first).bit_length()))
