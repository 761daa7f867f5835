"""The last losses of a training: whether they have halved, and whether the task is solved."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

#: Losses in the mean.
LOSSES = 20
#: A task whose loss is below this, in nats, is solved.
_NEAR_ZERO = 0.05
#: From untrained to a loss near 0 in fewer updates, a task is not solved: its labels leak.
_TOO_SOON = 300


class LossWindow:
    """The last losses, the first, the lowest mean, and the first update with a mean near 0."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.first: float | None = None
        self.lowest = math.inf
        self.updates = 0
        self._near_zero_at: int | None = None

    def add(self, value: float) -> float:
        """Add the loss of one update; return the mean of the last ones, or a non-finite loss."""
        self.updates += 1
        self.first = value if self.first is None else self.first
        self.losses = [*self.losses, value][-LOSSES:]
        mean = sum(self.losses) / len(self.losses) if math.isfinite(value) else value
        if self._near_zero_at is None and abs(mean) < _NEAR_ZERO:
            self._near_zero_at = self.updates
        if self.is_full and math.isfinite(mean):
            self.lowest = min(self.lowest, mean)
        return mean

    @property
    def is_full(self) -> bool:
        """Whether the mean has all of its losses."""
        return len(self.losses) == LOSSES

    @property
    def is_halved(self) -> bool:
        """Whether the mean is less than half of the first loss."""
        if not self.is_full or self.first is None:
            return False
        return 2 * statistics.fmean(self.losses) < self.first

    def is_solved(self, guessing: float | None) -> bool:
        """Whether predictions are certain because they are right: the mean is near 0.

        It is not solved if untrained weights got there within their first updates. Weights count as
        untrained if the first loss is at least half of `guessing`, the loss of guessing among all
        tokens (None: losses are not of tokens). Half, because tied weights predict their own input
        better than guessing.
        """
        if self._near_zero_at is None or abs(statistics.fmean(self.losses)) >= _NEAR_ZERO:
            return False
        was_trained = guessing is None or self.first is None or 2 * self.first < guessing
        return was_trained or self._near_zero_at > _TOO_SOON

    def state_dict(self) -> dict[str, Any]:
        """The window, as plain values."""
        return {
            "losses": self.losses,
            "first_loss": self.first,
            "lowest": self.lowest,
            "updates": self.updates,
            "near_zero_at": self._near_zero_at,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.losses, self.first = state["losses"], state["first_loss"]
        self.lowest, self.updates = state["lowest"], state["updates"]
        self._near_zero_at = state.get("near_zero_at")  # older versions did not save it
