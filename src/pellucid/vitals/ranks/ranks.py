"""The ranks of a watched training: each shows its rows, and compares those that all have shown."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.optim import Optimizer

from pellucid.parallel.collect import Collect, averages_gradients, read_different_rows
from pellucid.training import Guard
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.ledger.marks import Mark, MarkName
from pellucid.vitals.model_parts import Anatomy
from pellucid.vitals.ranks.comparison import Difference, RankMarks, differences
from pellucid.vitals.ranks.row import RankRow, row_of
from pellucid.vitals.ranks.setting import repeated_order, setting_of
from pellucid.vitals.ranks.tap import RankTap
from pellucid.vitals.taps.hooks import Hooks

#: Rows that a rank shows: the first ones, for faults that appear at once, and the last ones.
_FIRST, _LAST = 16, 16
#: Most losses that a rank shows, and that wait for those of others.
_MOST_LOSSES = 96
#: Beyond so many ranks only rank 0 reads the rows of all.
_ALL_READ = 16
#: How long the end of a training waits for the last rows of others; and of ranks never heard of.
_END_SECONDS, _NEVER_SECONDS = 20.0, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """What the comparison of ranks has shown so far.

    Attributes:
        size: how many ranks there are.
        silent: the ranks that have shown nothing.
        differences: values that should be alike and are not.
        places: by mark: the weights that it was seen in.
        weights_differ: whether the weights of ranks are apart now.
        order: rows read, and rows of an epoch, if every epoch has the same order.
    """

    size: int
    silent: tuple[int, ...]
    differences: tuple[Difference, ...] = ()
    places: Mapping[MarkName, Sequence[str]] = field(default_factory=dict[MarkName, Sequence[str]])
    weights_differ: bool = False
    order: tuple[int, int] | None = None


class Ranks:
    """This rank and the others.

    Args:
        collect: shows the others what this rank measured.
        model: the model as the loop has it.
        anatomy: its parts.
        optimisers: those that step.
        guard: guards hooks on gradients.
    """

    def __init__(
        self,
        collect: Collect,
        model: nn.Module,
        anatomy: Anatomy,
        optimisers: Sequence[Optimizer],
        guard: Guard,
    ) -> None:
        self._collect = collect
        self.tap = RankTap(anatomy, optimisers, guard)
        self._setting = setting_of(anatomy.model, optimisers, _loop_frame())
        self._settings: dict[int, Any] = {collect.rank: self._setting}
        names = [
            group[0] if len(group) == 1 else f"{group[0]} to {group[-1]}"
            for group in self.tap.groups
        ]
        self._marks = RankMarks(
            names, is_divided=read_different_rows(model), is_cut=self.tap.reads_shares
        )
        if self.tap.reads_shares and not averages_gradients(model):
            self._marks.judges_sizes = False
        self._rows: dict[int, dict[int, RankRow]] = {rank: {} for rank in range(collect.size)}
        self._ended: set[int] = set()
        #: the loss of each update that is not judged yet, by rank
        self._losses: dict[int, dict[int, float]] = {rank: {} for rank in range(collect.size)}
        self._judged_losses = 0
        self._shown_losses: dict[int, float] = {}
        # an earlier watch that this rank did not take part in is over already
        self._strangers = {
            rank for rank, message in collect.posted(self._others).items() if message["left"]
        }
        self._show(is_last=False)

    @property
    def _others(self) -> set[int]:
        return set(range(self._collect.size)) - {self._collect.rank}

    def attach(self, model: nn.Module, hooks: Hooks) -> None:
        """Add hooks to the model as it is called.

        Args:
            model: the model.
            hooks: take the hooks.
        """
        self.tap.attach(model, hooks)

    def begin(self) -> None:
        """Measure the weights before an update."""
        self.tap.begin()

    def gather(self, optimiser: Optimizer | None) -> None:
        """Measure the gradients that an optimiser's step uses."""
        self.tap.gather(optimiser)

    def send(self, step: int, metrics: AsyncMetrics) -> None:
        """Measure the weights after an update, and send its row to the host.

        Args:
            step: the update.
            metrics: takes the row.
        """
        self.tap.end(step, metrics)

    def take(self, numbers: Sequence[float]) -> None:
        """Show a row that has arrived, and compare those that all ranks have shown."""
        self._add_own(self.tap.take(numbers))
        self._show(is_last=False)
        self._read()

    def add_loss(self, step: int, loss: float) -> None:
        """Take the loss of this rank's rows.

        Args:
            step: the update.
            loss: the loss.
        """
        self._losses[self._collect.rank][step] = loss

    def whole_losses(self) -> list[tuple[int, float]]:
        """The losses to judge now, in order: the mean over ranks, once all have shown theirs.

        It is this rank's own if a rank is silent, has ended, or is far behind.
        """
        own_losses, mean_losses = self._losses[self._collect.rank], list[tuple[int, float]]()
        is_alone = bool(self.silent) or len(self._ended) == self._collect.size
        for step in sorted(own_losses):
            losses = [losses[step] for losses in self._losses.values() if step in losses]
            is_late = is_alone or len(own_losses) > _MOST_LOSSES or self.has_ended
            if len(losses) < self._collect.size and not is_late:
                break
            mean_losses.append((step, math.fsum(losses) / len(losses)))
            self._judged_losses = step
            if len(losses) < self._collect.size:
                mean_losses[-1] = (step, own_losses[step])
            for rank_losses in self._losses.values():
                rank_losses.pop(step, None)
        return mean_losses

    def end(self, step: int, *, waits: bool) -> None:
        """Show that this rank's training has ended, and wait a little for the rows of others.

        Args:
            step: finished updates.
            waits: whether to wait; not after an error.
        """
        last = self.tap.last(step) if step else None
        if last is not None:
            self._add_own(last)
        self._show(is_last=True)
        started = time.monotonic()
        while True:
            self._read()
            seconds = time.monotonic() - started
            patience = _NEVER_SECONDS if self.silent else _END_SECONDS
            if not waits or len(self._ended) == self._collect.size or seconds > patience:
                self._show(is_last=True, has_left=True)
                return
            time.sleep(0.01)

    @property
    def marks(self) -> Mapping[MarkName, Mark]:
        """The marks so far, by name; none while weights are averaged now and then on purpose."""
        marks = self._marks.by_name
        if not self._marks.averages_weights:
            return marks
        return {name: mark for name, mark in marks.items() if name not in ("unshared", "apart")}

    @property
    def report(self) -> RankReport:
        """What the comparison has shown so far."""
        return RankReport(
            size=self._collect.size,
            silent=tuple(self.silent),
            differences=tuple(differences(self._settings)),
            places=self._marks.places,
            weights_differ=self._marks.is_apart,
            order=repeated_order(self.tap.n_examples),
        )

    @property
    def has_ended(self) -> bool:
        """Whether this rank has shown that its training has ended."""
        return self._collect.rank in self._ended

    @property
    def silent(self) -> list[int]:
        """The ranks that have shown nothing yet."""
        return [rank for rank in range(self._collect.size) if rank not in self._settings]

    def _add_own(self, row: RankRow) -> None:
        rows = self._rows[self._collect.rank]
        rows[row.step] = row_of(row.message())  # rounded, as those of others are
        for step in [*rows][_FIRST:-_LAST]:
            del rows[step]

    def _show(self, *, is_last: bool, has_left: bool = False) -> None:
        rows = [row.message() for row in self._rows[self._collect.rank].values()]
        self._shown_losses |= self._losses[self._collect.rank]
        for old in [*self._shown_losses][:-_MOST_LOSSES]:
            del self._shown_losses[old]
        message = {"setting": self._setting, "rows": rows, "ended": is_last, "left": has_left}
        self._collect.post(message | {"losses": [*self._shown_losses.items()]})
        if is_last:
            self._ended.add(self._collect.rank)

    def _read(self) -> None:
        rank, size = self._collect.rank, self._collect.size
        if rank and size > _ALL_READ:
            return
        for other, message in self._collect.posted(self._others - self._strangers).items():
            self._settings[other] = message["setting"]
            if message["ended"]:
                self._ended.add(other)
            self._losses[other] |= {
                step: float(loss) for step, loss in message["losses"] if step > self._judged_losses
            }
            rows = map(row_of, message["rows"])
            self._rows[other] |= {row.step: row for row in rows if row.step > self._marks.step}
        shared = set(self._rows[rank]).intersection(*self._rows.values())
        for step in sorted(step for step in shared if step > self._marks.step):
            self._marks.add([self._rows[n][step] for n in range(size)])


def _loop_frame() -> Any:
    """The frame of the function that trains: the first one outside this library."""
    frame: Any = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("pellucid."):
        frame = frame.f_back
    return frame
