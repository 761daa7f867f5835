"""The length of a run by minutes: planned at its start, and planned again while it trains."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Replan:
    """A new length of a run: it counts for the updates that follow `step` updates.

    Attributes:
        step: how many updates are done.
        total_steps: how many updates the run will have.
        progress: the share of the schedule that is done; the rest is spread over the updates left.
        seconds: the time that the run had taken.
        last_rows: how many rows the last update learns from; None for a whole batch.
    """

    step: int
    total_steps: int
    progress: float
    seconds: float
    last_rows: int | None = None

    def __post_init__(self) -> None:
        possible = 0 <= self.step <= self.total_steps < 2**53
        possible = possible and (self.last_rows is None or 1 <= self.last_rows < 2**53)
        if not possible or not 0 <= self.progress <= 1 or not 0 <= self.seconds < float("inf"):
            raise ConfigError(
                "expected 0 <= step <= total_steps, progress from 0 to 1, seconds of at least 0 "
                f"and last_rows of at least 1, was {self}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The time of a run by minutes, as its checkpoints hold it.

    Attributes:
        seconds: the time that the run had taken.
        evaluation: the seconds of an evaluation.
        checkpoint: the seconds for which a checkpoint keeps the run from learning.
        saving: the seconds of writing a checkpoint.
        replans: the new lengths so far.
    """

    seconds: float = 0.0
    evaluation: float = 0.0
    checkpoint: float = 0.0
    saving: float = 0.0
    replans: tuple[Replan, ...] = ()

    def __post_init__(self) -> None:
        for name in ("seconds", "evaluation", "checkpoint", "saving"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{name}: expected seconds, at least 0, was {self}")


class Timetable:
    """The new lengths of a run, in order; empty if the first plan holds.

    The schedule and the growth of a run are functions of the updates of its first plan, which are
    `planned_steps`. After a new length an update counts for more or for less than one of these.

    Args:
        replans: the new lengths so far.
    """

    def __init__(self, replans: Iterable[Replan] = ()) -> None:
        self.replans: list[Replan] = []
        for replan in replans:
            self.add(replan)

    def add(self, replan: Replan) -> None:
        """Add a new length.

        Raises:
            ConfigError: it is for an earlier update than the one before it.
        """
        if replan.step < self.decided:
            raise ConfigError(f"step {replan.step} comes after step {self.decided}")
        self.replans.append(replan)

    @property
    def decided(self) -> int:
        """The number of updates up to which the length is decided; later it may change."""
        return self.replans[-1].step if self.replans else -1

    def total(self, planned_steps: int) -> int:
        """How many updates the run has."""
        return self.end(planned_steps)[0]

    def end(self, planned_steps: int) -> tuple[int, int | None]:
        """How many updates the run has, and the rows of the last one; None for a whole batch."""
        if not self.replans:
            return planned_steps, None
        return self.replans[-1].total_steps, self.replans[-1].last_rows

    def short_updates(self) -> dict[int, int]:
        """The rows of the updates that learn from less than a whole batch, by their numbers.

        The last update of a length is one only if no later length came before it.
        """
        ends = [*(float(replan.step) for replan in self.replans[1:]), inf]
        return {
            replan.total_steps: replan.last_rows
            for replan, end in zip(self.replans, ends, strict=False)
            if replan.last_rows is not None and end >= replan.total_steps
        }

    def moment(self, step: int, planned_steps: int) -> float:
        """How many updates of the first plan are as much as the first `step` updates."""
        number = bisect_right(self.replans, step, key=lambda replan: replan.step)
        if number == 0:
            return step
        replan = self.replans[number - 1]
        updates = replan.total_steps - replan.step
        start = replan.progress * planned_steps
        remaining = (1 - replan.progress) * planned_steps
        return start + (step - replan.step) * remaining / updates if updates else planned_steps

    def progress(self, step: int, planned_steps: int) -> float:
        """The share of the schedule that the first `step` updates do."""
        return min(1.0, self.moment(step, planned_steps) / planned_steps)

    def confirmed(self, step: int, planned_steps: int, seconds: float = 0.0) -> Replan | None:
        """The same length again, to be recorded as decided; None if it is.

        Args:
            step: how many updates are done.
            planned_steps: the updates of the first plan.
            seconds: the time that the run had taken.
        """
        if step <= self.decided:
            return None
        total_steps, last_rows = self.end(planned_steps)
        return Replan(
            step=step,
            total_steps=total_steps,
            progress=self.progress(step, planned_steps),
            seconds=seconds,
            last_rows=last_rows,
        )

    def furthest(self, step: int, planned_steps: int) -> float:
        """The latest moment of the updates so far: what has grown does not shrink again."""
        starts = [0, *(replan.step for replan in self.replans if replan.step <= step)]
        ends = [
            self.moment(end - 1, planned_steps) for start, end in pairwise(starts) if end > start
        ]
        return max([self.moment(step, planned_steps), *ends])

    def updates_before(self, moment: float, planned_steps: int, step: int) -> int:
        """How many of the first updates come before a moment.

        Args:
            moment: in updates of the first plan.
            planned_steps: the updates of the first plan.
            step: how many updates to look at.
        """
        if not self.replans or moment <= 0:
            return min(int(moment), step)
        return bisect_left(range(step), moment, key=lambda n: self.furthest(n, planned_steps))

    def ending_after(self, end: int) -> Timetable:
        """The same, for a run that ends after `end` updates."""
        earlier = (replan for replan in self.replans if replan.step < end)
        last = Replan(step=end, total_steps=end, progress=1.0, seconds=0.0)
        return Timetable((*earlier, last))
