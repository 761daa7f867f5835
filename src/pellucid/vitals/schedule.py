"""When to take readings: every few updates, as far as the overhead budget allows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Literal, cast

import torch

from pellucid.errors import ConfigError
from pellucid.training import silently
from pellucid.vitals.overhead_budget import Clock, Cost, OverheadBudget

Kind = Literal["gradients", "inside"]
KINDS: tuple[Kind, ...] = ("gradients", "inside")

#: Updates between two readings, if the budget allows.
EVERY: dict[Kind, int] = {"gradients": 10, "inside": 25}
#: The share of the budget for each kind.
_SHARES: dict[Kind, float] = {"gradients": 0.4, "inside": 0.6}
#: The first readings are of this update at the latest.
_LATEST = 5
#: Updates until a sick reading is repeated, and most repetitions in a row, on credit.
_REPEAT_AFTER, _MAX_REPETITIONS = 3, 2
#: Readings may be on credit up to the budget of so many first updates; of more updates if these
#: fit into so many seconds. From then on watching has cost no more than its share.
_UPDATES, _MAX_UPDATES, _SECONDS = 100, 1000, 20.0
#: Updates between two questions whether the budget pays for a reading that is due: each costs time.
_RETRIED = 8
#: The part of the largest overhead that is spent: the clock does not count what watching drives out
#: of the processor's caches, and by processor time it costs up to a quarter more.
_SPENT = 0.8
#: What every update costs takes at most this part of the budget from the readings.
_MOST_USUAL = 0.5


class LookSchedule:
    """Two kinds of readings, each with its own interval and budget.

    Raises:
        ConfigError: `max_overhead` is not between 0 and 1.
    """

    def __init__(self, max_overhead: float | None, device: torch.device) -> None:
        share_of(max_overhead)
        self.clock = Clock()
        self._device = device
        #: the largest share of the training's time; None for no bound
        self.max_share = max_overhead
        #: the share that readings and what every update needs may take by the clock
        self.share = None if max_overhead is None else _SPENT * max_overhead
        self._budgets = {
            kind: OverheadBudget(None if self.share is None else self.share * _SHARES[kind])
            for kind in KINDS
        }
        self._next: dict[Kind, int] = dict.fromkeys(KINDS, 1)
        self._now: frozenset[Kind] = frozenset()
        self._doubted: dict[Kind, int] = {}
        #: the next update that asks again whether the budget pays for readings of a kind
        self._retries_at: dict[Kind, int] = dict.fromkeys(KINDS, 0)
        self._credits: dict[Kind, int] = dict.fromkeys(KINDS, _MAX_REPETITIONS)
        #: budgets of other readings of updates
        self.other_budgets: list[OverheadBudget] = []
        #: seconds of training and of other watching than readings at the first update, which also
        #: warms up; updates since
        self._warm: tuple[float, float] | None = None
        self._updates_timed = 0
        #: lets all ranks of shared weights take the same readings; None if there is one process
        self.agree: Callable[[int, set[Kind]], set[Kind]] | None = None

    def begin(self, step: int, rests: Callable[[], bool] = bool) -> None:
        """Choose the readings of this update: those that are due and fit into the budget.

        Args:
            step: The update.
            rests: Says whether a warm-up is still at 0; asked in the first updates alone. Then
                readings wait: the weights stay as they are, and the step tells nothing.
        """
        self.clock.settle()
        self._updates_timed = 0 if self._warm is None else self._updates_timed + 1
        if self._warm is None:
            self._warm = (self.clock.training, self.clock.watching - self._spent)
        self._now = frozenset()
        if step < _LATEST and rests():
            return
        is_skipped = step < self.next_due if self.agree is None else not is_shared(step)
        if is_skipped:
            return
        training = self.clock.training
        credited = self.credited
        due: set[Kind] = set()
        for kind in KINDS:
            cost = sum(self._budgets[due_kind].last for due_kind in {*due, kind})
            if step < self._due_at(kind):
                continue
            self._retries_at[kind] = (step // _RETRIED + 1) * _RETRIED
            # the first one is taken at any price: on a busy machine all that begins a watch is dear
            if self._budgets[kind].n_readings and not self.fits(cost, credited):
                continue
            if self._takes_repetition(kind, step):
                due.add(kind)
            elif step >= self._next[kind] and self._budgets[kind].pays(training):
                due.add(kind)
                self._credits[kind] = _MAX_REPETITIONS
                self._next[kind] = _next_step(step, EVERY[kind])
            if kind in due:
                self._retries_at[kind] = 0
        due = due if self.agree is None else self.agree(step, due)
        for kind in due:
            self._budgets[kind].begin()
        self._now = frozenset(due)

    def skip(self) -> None:
        """Count an update before `next_due`."""
        self._updates_timed += 1

    @property
    def next_due(self) -> int:
        """The next update that has a reading, or that asks again whether the budget pays for it."""
        return min(map(self._due_at, KINDS))

    def _due_at(self, kind: Kind) -> int:
        """The update from which the budget is asked for a reading of that kind."""
        next_step = self._next[kind]
        if self.agree is None:
            next_step = max(next_step, self._retries_at[kind])
        return min(next_step, self._doubted.get(kind, next_step))

    @property
    def credited(self) -> float:
        """Seconds of training that the budget counts: those so far, or of the first updates."""
        training = self.clock.training
        if not self._updates_timed or self._warm is None:
            return max(training, _SECONDS)
        pace = (training - self._warm[0]) / self._updates_timed
        return max(training, _UPDATES * pace, min(_MAX_UPDATES * pace, _SECONDS))

    @property
    def _spent(self) -> float:
        """Seconds of all readings."""
        return sum(budget.spent for budget in (*self._budgets.values(), *self.other_budgets))

    def fits(self, cost: float, credited: float) -> bool:
        """Whether all watching so far and this reading stay within the share of so much training.

        Args:
            cost: The seconds of the reading.
            credited: The seconds of training; those still to come have their usual cost.
        """
        if self.share is None:
            return True
        usual, training = 0.0, self.clock.training
        warm_seconds, first_work = self._warm or (training, 0.0)
        if training > warm_seconds:
            work = self.clock.watching - self._spent - first_work
            usual = min(max(0.0, work / (training - warm_seconds)), _MOST_USUAL * self.share)
        total = self._spent + cost + first_work + usual * (credited - warm_seconds)
        return total <= self.share * credited

    def doubt(self, signs: Iterable[str], step: int) -> None:
        """Repeat the readings that were sick at `step` soon after it.

        The repetition may be on credit, as the first readings of a training are.
        """
        for kind in set[Kind | None](map(_kind_of, signs)):
            if kind is not None and self._credits[kind]:
                self._doubted[kind] = step + _REPEAT_AFTER

    def _takes_repetition(self, kind: Kind, step: int) -> bool:
        if step < self._doubted.get(kind, step + 1):
            return False
        del self._doubted[kind]
        self._credits[kind] -= 1
        return True

    def is_due(self, kind: Kind) -> bool:
        """Whether this update has a reading of that kind."""
        return kind in self._now

    @contextmanager
    def look(self, kind: Kind) -> Generator[None]:
        """Count the time within as a reading of that kind."""
        with silently(), self.clock.look(self._budgets[kind], self._device):
            yield

    def resume_after(self, step: int) -> None:
        """Take readings right after so many updates: a training is resumed."""
        self._next = dict.fromkeys(KINDS, step + 1)

    @property
    def cost(self) -> Cost:
        """The cost of all readings so far."""
        n_readings = sum(budget.n_readings for budget in self._budgets.values())
        return Cost(self.clock.watching, self.clock.training, n_readings)


def share_of(max_overhead: float | None) -> float | None:
    """Check the share of the training's time that readings may take.

    Raises:
        ConfigError: It is not between 0 and 1.
    """
    if max_overhead is None:
        return None
    if not isinstance(cast("Any", max_overhead), int | float) or not 0 < max_overhead < 1:
        raise ConfigError(
            f"max_overhead is {max_overhead!r}: pass a share of the training's time between 0 and "
            "1, or None for no bound"
        )
    return max_overhead


def _next_step(step: int, interval: int) -> int:
    """The next multiple; an early one first, for faults that appear at once."""
    return 5 if step < 5 <= interval else (step // interval + 1) * interval


def is_shared(step: int) -> bool:
    """Whether ranks that share weights may take readings at this update."""
    return step == 1 or step % 5 == 0


def _kind_of(id: str) -> Kind | None:
    """The kind of reading that a sign comes from; None for one that comes with every loss."""
    if id.startswith("loss."):
        return None
    gradients = id.startswith(("gradient.", "norm.gain")) or id in (
        "update.ratio",
        "update.effective_step",
    )
    return "gradients" if gradients else "inside"
