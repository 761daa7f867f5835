"""Watching a training from outside: any model, any torch optimiser, any loop.

Hooks on the optimisers mark an update. Some updates have readings: gradients and the step that they
make every few, the model's inside (see `probe`) less often. The overhead budget bounds how often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from threading import get_ident
from typing import Literal, Self

from torch import Tensor, nn
from torch.optim import Optimizer

from pellucid.errors import ConfigError
from pellucid.training import Guard, guarded
from pellucid.vitals.async_metrics import AsyncMetrics, Column
from pellucid.vitals.call.first_call import FirstCallProbe
from pellucid.vitals.call.reward_order import rows_of_rewards
from pellucid.vitals.inside_look import InsideLook
from pellucid.vitals.ledger.ledger import COLUMN, Ledger
from pellucid.vitals.ledger.writes import Writes
from pellucid.vitals.logs import Log, log_to, send_signs
from pellucid.vitals.model_parts import called_module
from pellucid.vitals.part_losses import LOSS, Losses, losses_in, take_logged
from pellucid.vitals.predictions import Other
from pellucid.vitals.probe import Probe
from pellucid.vitals.ranks.ranks import Ranks
from pellucid.vitals.ranks.tap import COLUMN as RANKS
from pellucid.vitals.rules import rules_of
from pellucid.vitals.schedule import LookSchedule
from pellucid.vitals.signs import Sign
from pellucid.vitals.taps.first_batch import FirstBatch
from pellucid.vitals.taps.hooks import Hooks, IdleSpell, LastingHook
from pellucid.vitals.taps.optimiser_steps import Steps
from pellucid.vitals.update_sizes import Optimisers, rate_of, rests, unwrap_optimisers
from pellucid.vitals.verdicts import VerdictTracker

#: Updates whose losses and rates are judged together: one at a time, each would cost more.
_BATCHED_UPDATES = 16


class Watch(InsideLook):
    """A training that is watched; see `watch`."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimisers | None,
        *,
        probe: Probe | Callable[[], Probe | None] | Literal[False] | None,
        reference: nn.Module | None,
        clip_norm: float | None,
        max_overhead: float | None,
        log: object,
        thresholds: str | Path | None,
    ) -> None:
        trained = next((p for p in model.parameters() if p.requires_grad), None)
        if trained is None:
            raise ConfigError("no parameter of the model is trained: unfreeze at least one")
        self._schedule = LookSchedule(max_overhead, trained.device)
        self.guard = Guard(clock=self._schedule.clock)
        self._model = model
        self._optimisers = unwrap_optimisers(optimizer)
        self._judge = VerdictTracker(rules_of(thresholds), self.guard)
        self._logs: list[Log] = [] if log is None else [log_to(log)]
        self._ledger = Ledger(self._optimisers, self._schedule, self.guard)
        self._metrics = AsyncMetrics(self.guard)
        #: the probe, or a function that makes one later
        self._probe = None if isinstance(probe, bool) else probe
        self._study_model()
        self._reference = reference
        #: the model that predictions are compared with, and the call for its logits
        self.other: tuple[Other, Callable[[], Tensor | None]] | None = None
        self._judge.clip_norm = clip_norm
        #: signs that the trainer passes to the judge itself, because it knows them better
        self.trainer_signs: set[str] = set()
        #: whether the clock pauses after each update, until `resume`
        self.stops_clock = False
        self._first_batch: FirstBatch | None = None
        #: repeats the loop's first call, once
        self.first_call = FirstCallProbe(self.guard, self._model, enabled=probe is not False)
        #: on while nothing is due in the update that comes; and the next one that has more to do
        self._idle_spell, self._wakes_at = IdleSpell(), 0
        self._writes = Writes(self._optimisers, self._idle_spell)
        self._hooks = Hooks(self.guard, LastingHook, self._idle_spell)
        self._losses = Losses()
        #: the learning rate of each update that is not judged yet
        self._rates: list[tuple[int, float]] = []
        #: the other processes that train this model; None if there are none
        self._ranks: Ranks | None = None
        #: the thread that trains, once it is known: only that one may run the model
        self._thread: int | None = None
        self._steps = Steps(
            self._optimisers, begin=self._begin_update, gather=self._gather, end=self._end_update
        )
        self.updates = 0  # finished ones
        #: whether the watch has begun, and whether the training under it came to its end
        self._has_begun, self.has_ended = False, False
        #: functions that are called with a step and its signs, whenever there are new ones
        self.listeners: list[Callable[[int, Sequence[Sign]], None]] = []

    # ---- attaching

    def __enter__(self) -> Self:
        self.close()
        self._has_begun, self.has_ended = True, False
        self.guard("hooks", self._attach)
        self._schedule.clock.start()
        return self

    def _attach(self) -> None:
        model = batch = None
        if self._probe is None:
            # load this before making hooks: then they also run in modules that are compiled later
            import_module("torch._dynamo")
            first = self._first_batch = self._first_batch or FirstBatch(self._model)
            model, batch = called_module(self._model), first.latest
            first.attach(model, self._hooks)
        if self._optimisers:
            self._steps.attach(self._hooks)
            self.guard("the ledger", self._ledger.attach, model, self._hooks, batch)
        self.guard("ranks", self._meet_ranks)

    def __exit__(self, kind: object = None, *_: object) -> None:
        self.close(waits=kind is None)
        self.has_ended = kind is None

    def close(self, *, waits: bool = True) -> None:
        """Remove all hooks and read the last numbers; a second call does nothing.

        Args:
            waits: whether to wait a little for the last numbers of other ranks.
        """
        self._hooks.remove()
        self._idle_spell.is_on, self._wakes_at = False, 0
        self.flush()
        self._schedule.clock.pause()
        if self._ranks is not None and not self._ranks.has_ended:
            self.guard("ranks", self._ranks.end, self.updates, waits=waits)
            self._judge_losses([])

    # ---- calls from the loop

    def step(self, loss: Tensor | float | None = None) -> None:
        """Take the loss of an update, or of a part of it; without an optimiser, end an update.

        Outside of a `with` block the first call begins the watch, and only that.
        """
        if not self._has_begun:
            self.__enter__()
            return
        if loss is not None:
            self.guard("loss.*", self._losses.add, loss, self._first_batch)
        if not self._optimisers:
            self.guard("updates", self._begin_update)
            self.guard("updates", self._gather, None)
            self.guard("updates", self._end_update)

    def log(self, numbers: Mapping[str, Tensor | float]) -> None:
        """Take numbers of your own of the update, such as `{"reward": ..., "kl": ...}`.

        Args:
            numbers: By the names that trackers use; of a tensor, the mean counts.
        """
        rewards = rows_of_rewards(numbers)
        if rewards is not None and self._first_batch is not None:
            self._first_batch.answers.rewards.take(rewards)
        self._losses.log(numbers, self._metrics)

    def pause(self) -> None:
        """Pause the clock: an evaluation or a checkpoint follows."""
        self._schedule.clock.pause()

    def resume(self) -> None:
        """Start the clock again: training continues."""
        self._schedule.clock.start()

    @guarded("readings")
    def flush(self) -> None:
        """Wait for all numbers that are still on the device, and read them."""
        self._losses.end_update(self.updates, self._first_batch, is_last=True)
        self.guard("the ledger", self._ledger.send, self._metrics)
        self._turn()
        self._judge_readings(self._metrics.read(), [])

    # ---- an update

    def _gather(self, optimiser: Optimizer | None) -> None:
        """Take the gradients of one optimiser's step."""
        if self._idle_spell.is_on or "readings" in self.guard.off:
            return
        self.guard("the ledger", self._ledger.gather, optimiser)
        if self._ranks is not None:
            self.guard("ranks", self._ranks.gather, optimiser)
        if not self._schedule.is_due("gradients"):
            return
        with self._schedule.look("gradients"):
            self.guard("gradients", self._gradients.gather, optimiser, self._metrics)

    def _begin_update(self) -> None:
        """Prepare an update, before its first step."""
        if "readings" in self.guard.off:  # to measure would be pointless
            return
        if self._idle_spell.is_on:  # few calls: each costs microseconds of every update
            self._schedule.skip()
            self._take_rate()
            self._writes.begin(self._metrics)
            return
        self.guard("the learning rate", self._take_rate)
        self.guard("update.written", self._writes.begin, self._metrics)
        self._thread = get_ident()
        self._look_at_first_batch()
        self._schedule.begin(self.updates + 1, lambda: rests(self._optimisers))
        if self._schedule.is_due("inside"):
            with self._schedule.look("inside"):
                self.guard("the look inside", self._look_inside)
        if self._schedule.is_due("gradients"):
            with self._schedule.look("gradients"):
                self._prepare_step()
        self.guard("the ledger", self._ledger.begin, self.updates + 1)
        if self._ranks is not None:
            self.guard("ranks", self._ranks.begin)

    def _take_rate(self) -> None:
        rate = rate_of(self._optimisers)
        if rate is not None:
            self._rates.append((self.updates + 1, rate))

    def _end_update(self) -> None:
        """Finish an update."""
        self.updates += 1
        if "readings" in self.guard.off:
            return
        if self._idle_spell.is_on:
            self._writes.end()
            self._ledger.events.clear_calls()
        else:
            self.guard("update.written", self._writes.end)
            self._take_readings()
        self._losses.end_update(self.updates, self._first_batch)
        if self._metrics.is_busy or self._ranks is not None or self.updates % _BATCHED_UPDATES == 0:
            self.guard("readings", self._turn)
            self._wakes_at = 0
        if self.updates + 1 >= self._wakes_at:
            self._plan_idle_spell()
        if self.stops_clock:
            self._schedule.clock.pause()

    def _take_readings(self) -> None:
        """Take the readings after an update's last step that are due."""
        if self._schedule.is_due("gradients"):
            with self._schedule.look("gradients"):
                self._look_at_step()
        self.guard("the ledger", self._ledger.end, self.updates, self._metrics)
        if self._ranks is not None:
            self.guard("ranks", self._ranks.send, self.updates, self._metrics)
        if self._schedule.is_due("inside"):
            with self._schedule.look("inside"):
                self._look_at_change()

    def _plan_idle_spell(self) -> None:
        """Find the next update that has more to do than the usual: until then the watch is idle."""
        step, first = self.updates + 1, self._first_batch
        is_known = first is None or (first.is_done and not self.first_call.is_open)
        is_alone = self._ranks is None and self._schedule.agree is None
        is_free = is_known and is_alone and not self.guard.off  # all parts run under one guard
        self._wakes_at = min(self._schedule.next_due, self._ledger.next_due(step)) if is_free else 0
        self._idle_spell.is_on = step < self._wakes_at

    def _turn(self) -> None:
        """Judge what has arrived since the last time, and send what was measured since."""
        rates, self._rates = self._rates, []
        self._judge.rates(rates)
        losses = self._losses.take(self._metrics)
        self._judge_readings(self._metrics.turn(self.updates), losses)

    def _judge_readings(
        self,
        arrived: tuple[int, list[tuple[Column, list[float]]]] | None,
        losses: list[tuple[int, float]],
    ) -> None:
        """Judge losses, and the readings of an earlier step; report the readings."""
        step, readings = arrived or (self.updates, [])
        for column, numbers in readings:
            if column.id == COLUMN:
                self.guard("the ledger", self._ledger.judge, numbers, self._judge)
            if column.id == RANKS and self._ranks is not None:
                self.guard("ranks", self._ranks.take, numbers)
        self._judge_losses([loss for reading in readings for loss in losses_in(reading)] + losses)
        elsewhere = {COLUMN, RANKS, LOSS, *self.trainer_signs}
        readings = take_logged(step, readings, self._judge.record)
        readings = [reading for reading in readings if reading[0].id not in elsewhere]
        if readings:
            self._judge.read(step, readings)
            self._schedule.doubt(self._judge.doubted, step)
            send_signs(self.guard, step, self.signs, self.listeners, self._logs)
