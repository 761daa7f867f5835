"""When to look, and what looking has cost: every few updates, as far as the purse allows."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, Literal, cast

import torch

from pellucid.errors import ConfigError
from pellucid.training import silently
from pellucid.vitals.overhead_budget import Clock, Cost, OverheadBudget

Kind = Literal["gradients", "inside"]
KINDS: tuple[Kind, ...] = ("gradients", "inside")

#: Every how many updates there is a look, where time allows.
EVERY: dict[Kind, int] = {"gradients": 10, "inside": 25}
#: Which share of the budget each may take.
_SHARES: dict[Kind, float] = {"gradients": 0.4, "inside": 0.6}
#: After how many updates a sick reading is looked at again, and how often at most, on credit.
_AGAIN_AFTER, _AGAIN = 3, 2
#: A look may be on credit for as much as so many first updates will earn, or so many seconds if
#: they are more: from then on watching has cost no more than its share.
_UPDATES, _SECONDS = 100, 20.0


class LookSchedule:
    """Two kinds of looks, each with its own interval and purse.

    Raises:
        ConfigError: `max_overhead` is no share.
    """

    def __init__(self, max_overhead: float | None, device: torch.device) -> None:
        share_of(max_overhead)
        self.clock = Clock()
        self._device = device
        #: of the training's time, at most; None for no bound
        self.share = max_overhead
        self._purses = {
            kind: OverheadBudget(None if max_overhead is None else max_overhead * _SHARES[kind])
            for kind in KINDS
        }
        self._next: dict[Kind, int] = dict.fromkeys(KINDS, 1)
        self._now: frozenset[Kind] = frozenset()
        self._doubted: dict[Kind, int] = {}
        self._credits: dict[Kind, int] = dict.fromkeys(KINDS, _AGAIN)
        #: seconds of training at the first update, which also warms up; updates since
        self._warm: float | None = None
        self._since = 0

    def begin(self, step: int) -> None:
        """Choose what is looked at in this update: what is due, and can be paid for."""
        self.clock.settle()
        training = self.clock.training
        self._since = 0 if self._warm is None else self._since + 1
        self._warm = training if self._warm is None else self._warm
        soon = self._soon(training)
        due: set[Kind] = set()
        for kind in KINDS:
            if not self._fits({*due, kind}, soon):
                continue
            if self._again(kind, step):
                due.add(kind)
            elif step >= self._next[kind] and self._purses[kind].pays(training):
                due.add(kind)
                self._credits[kind] = _AGAIN
                self._next[kind] = _next_step(step, EVERY[kind])
        for kind in due:
            self._purses[kind].begin()
        self._now = frozenset(due)

    def _soon(self, training: float) -> float:
        """Seconds of training that credit is given for: those there were, or there will be soon."""
        pace = (training - (self._warm or 0.0)) / self._since if self._since else 0.0
        return max(training, _UPDATES * pace, _SECONDS)

    def _fits(self, kinds: Iterable[Kind], training: float) -> bool:
        """Whether all looks so far and these stay within their share of so much training."""
        cost = sum(self._purses[kind].last for kind in kinds)
        return self.share is None or self.clock.watching + cost <= self.share * training

    def doubt(self, signs: Iterable[str], step: int) -> None:
        """Look again soon after `step` at what was sick there, if it is so once more.

        What that costs may be on credit, as far as a training's beginning will pay for it.
        """
        for kind in set[Kind | None](map(_kind_of, signs)):
            if kind is not None and self._credits[kind]:
                self._doubted[kind] = step + _AGAIN_AFTER

    def _again(self, kind: Kind, step: int) -> bool:
        if step < self._doubted.get(kind, step + 1):
            return False
        del self._doubted[kind]
        self._credits[kind] -= 1
        return True

    def at(self, kind: Kind) -> bool:
        """Whether this update is looked at so."""
        return kind in self._now

    @contextmanager
    def look(self, kind: Kind) -> Generator[None]:
        """Within it, time is spent on a look of that kind."""
        with silently(), self.clock.look(self._purses[kind], self._device):
            yield

    def go_on_after(self, step: int) -> None:
        """Look soon after so many updates: a training is resumed."""
        self._next = dict.fromkeys(KINDS, step + 1)

    @property
    def cost(self) -> Cost:
        """What all looks have cost so far."""
        looks = sum(purse.looks for purse in self._purses.values())
        return Cost(self.clock.watching, self.clock.training, looks)


def share_of(max_overhead: float | None) -> float | None:
    """The share of the training's time that looks may take.

    Raises:
        ConfigError: it is no share.
    """
    if max_overhead is None:
        return None
    if not isinstance(cast("Any", max_overhead), int | float) or not 0 < max_overhead < 1:
        raise ConfigError(
            f"max_overhead is {max_overhead!r}: it is a share of the training's time, between 0 "
            "and 1, or None for no bound"
        )
    return max_overhead


def _next_step(step: int, interval: int) -> int:
    """The next multiple; an early one first, for what goes wrong at once."""
    return 5 if step < 5 <= interval else (step // interval + 1) * interval


def _kind_of(id: str) -> Kind | None:
    """The kind of look that a sign comes from; None for one that comes with every loss."""
    if id.startswith("loss."):
        return None
    gradients = id.startswith(("gradient.", "norm.gain")) or id in (
        "update.ratio",
        "update.effective_step",
    )
    return "gradients" if gradients else "inside"
