"""Watching a training from outside: any model, any torch optimiser, any loop.

An update is known by its optimiser's hooks. Some updates are looked at: gradients and the step they
make every few, the model's inside (see `probe`) less often. How often is bounded by what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from threading import get_ident
from typing import Any, Self

from torch import Tensor, nn
from torch.optim import Optimizer

from pellucid.errors import ConfigError
from pellucid.training import Guard, guarded
from pellucid.vitals.async_metrics import AsyncMetrics, Column
from pellucid.vitals.logs import Log, log_to, tell
from pellucid.vitals.model_parts import bare, parts_of, study
from pellucid.vitals.part_losses import Losses
from pellucid.vitals.predictions import Other, Predicted
from pellucid.vitals.probe import Probe, ProbeRunner
from pellucid.vitals.record import Point
from pellucid.vitals.rules import rules_of
from pellucid.vitals.schedule import LookSchedule
from pellucid.vitals.signs import Sign
from pellucid.vitals.taps.first_batch import FirstBatch
from pellucid.vitals.taps.gradients import Gradients
from pellucid.vitals.taps.hooks import Hooks, LastingHook
from pellucid.vitals.taps.optimiser_steps import Steps
from pellucid.vitals.update_sizes import Optimisers, Updates, optimisers_of, rate_of
from pellucid.vitals.verdicts import VerdictTracker
from pellucid.vitals.watch_report import WatchReport
from pellucid.vitals.zero_grad_check import ZeroGradCheck, cleared_by


class Watch(WatchReport):
    """A training that is watched; see `watch`."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimisers | None,
        *,
        probe: Probe | Callable[[], Probe | None] | None,
        reference: nn.Module | None,
        clip_norm: float | None,
        max_overhead: float | None,
        log: object,
        thresholds: str | Path | None,
    ) -> None:
        self.guard = Guard()
        self._model = model
        self._optimisers = optimisers_of(optimizer)
        self._judge = VerdictTracker(rules_of(thresholds), self.guard)
        self._logs: list[Log] = [] if log is None else [log_to(log)]
        trained = next((p for p in model.parameters() if p.requires_grad), None)
        if trained is None:
            raise ConfigError("the model has no parameter that is trained: there is nothing to see")
        self._rounds = LookSchedule(max_overhead, trained.device)
        self._clearing = ZeroGradCheck(cleared_by(self._optimisers))
        self._tape = AsyncMetrics(self.guard)
        #: where the probe is had from, once there is one
        self._find = probe
        self._study()
        self._reference = reference
        #: who the predictions are compared with (see `Predicted.compared`), and how it is asked
        self.other: tuple[Other, Callable[[], Tensor | None]] | None = None
        self._judge.clip_norm = clip_norm
        #: ids of what the judge is told by somebody who knows it better
        self.told_elsewhere: set[str] = set()
        #: whether all between an update and `go_on` is no training
        self.stops_clock = False
        self._capture: FirstBatch | None = None
        self._hooks = Hooks(self.guard, LastingHook)
        self._losses = Losses()
        #: the thread that trains, once it is known: no other may run the model
        self._thread: int | None = None
        self._steps = Steps(
            self._optimisers, begin=self._begin_update, gather=self._gather, end=self._end_update
        )
        #: updates that are done
        self.updates = 0
        #: called with the step and its signs, whenever there are new ones
        self.listeners: list[Callable[[int, Sequence[Sign]], None]] = []

    def _study(self) -> None:
        """Learn the parts of the model; again, once it has others."""
        parts = self.guard("the parts of the model", study, self._model)
        self._anatomy = parts or bare(self._model)
        self._parts = self.guard("the parts of the model", parts_of, self._anatomy.model)
        self._updates = Updates(self._anatomy, self._optimisers)
        self._gradients = Gradients(self._anatomy, self._optimisers)
        self._predicted: Predicted | None = None
        self._looking: ProbeRunner | None = None
        if isinstance(self._find, Probe) and not self._anatomy.is_sharded:
            self._looking = ProbeRunner(self._anatomy, self._find)

    # ---- attaching

    def __enter__(self) -> Self:
        self.close()
        self.guard("hooks", self._attach)
        self._rounds.clock.start()
        return self

    def _attach(self) -> None:
        if self._find is None:
            # loaded before hooks are made: then they are heard in what is compiled later, too
            import_module("torch._dynamo")
            self._capture = self._capture or FirstBatch(self._model)
            self._capture.attach(self._model, self._hooks)
        if self._optimisers:
            self._steps.attach(self._hooks)
            self.guard("gradient.left", self._clearing.attach, self._hooks)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take all hooks off, and read what is on its way; closed twice is closed."""
        self._hooks.remove()
        self.flush()
        self._rounds.clock.pause()

    # ---- what a loop may say

    def step(self, loss: Tensor | float | None = None) -> None:
        """Take the loss of an update, or of a part of it; without an optimiser, one is done."""
        if loss is not None:
            self.guard("loss.*", self._losses.add, loss)
        if not self._optimisers:
            self.guard("updates", self._begin_update)
            self.guard("updates", self._gather, None)
            self.guard("updates", self._end_update)

    def pause(self) -> None:
        """What follows is not training: an evaluation, a checkpoint."""
        self._rounds.clock.pause()

    def go_on(self) -> None:
        """Training goes on."""
        self._rounds.clock.start()

    @guarded("readings")
    def flush(self) -> None:
        """Read what is on its way, and wait for it."""
        self._losses.put(self._tape, self._capture)
        self._hear(self._tape.turn(self.updates))
        self._hear(self._tape.read())

    @guarded("earlier readings")
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.updates = int(state["updates"])
        self._rounds.go_on_after(self.updates)
        if "judge" in state:
            self._judge.load_state_dict(state["judge"])

    # ---- an update

    def _gather(self, optimiser: Optimizer | None) -> None:
        """Take the gradients of one optimiser's step."""
        if self._is_off or not self._rounds.at("gradients"):
            return
        with self._rounds.look("gradients"):
            self.guard("gradients", self._gradients.gather, optimiser, self._tape)

    @property
    def _is_off(self) -> bool:
        """Whether nobody reads what would be measured."""
        return "readings" in self.guard.off

    def _begin_update(self) -> None:
        """An update begins: its first step."""
        if self._is_off:
            return
        self._thread = get_ident()
        self._rounds.begin(self.updates + 1)
        self.guard("the learning rate", self._take_rate)
        if self._rounds.at("inside"):
            with self._rounds.look("inside"):
                self.guard("the look inside", self._look_inside)
        if self._rounds.at("gradients"):
            with self._rounds.look("gradients"):
                self.guard("updates of weights", self._look_at_weights)
                self._gradients.clear()

    def _take_rate(self) -> None:
        rate = rate_of(self._optimisers)
        if rate is not None:
            self._judge.rate(rate)
            self._judge.record.rates.add(Point(self.updates + 1, rate))

    def _look_at_weights(self) -> None:
        self._keep_up()
        self._updates.begin()

    def _put_gradients(self) -> None:
        self._gradients.put(self._tape)
        self._clearing.put(self._tape)
        if self._capture is not None:
            self.guard("batch.*", self._capture.put, self._tape)

    def _end_update(self) -> None:
        """An update is done."""
        self.updates += 1
        if self._is_off:
            return
        if self._rounds.at("gradients"):
            with self._rounds.look("gradients"):
                self.guard("gradients", self._put_gradients)
                samples = self._gradients.samples
                self.guard("updates of weights", self._updates.after, samples, self._tape)
        self._clearing.stepped()
        if self._rounds.at("inside") and self._predicted is not None and self._looking is not None:
            with self._rounds.look("inside"):
                self.guard("update.kl_*", self._look_again, self._looking, self._predicted)
        self._losses.put(self._tape, self._capture)
        self.guard("readings", self._turn)
        if self.stops_clock:
            self._rounds.clock.pause()

    def _turn(self) -> None:
        self._hear(self._tape.turn(self.updates))

    def _look_again(self, looking: ProbeRunner, earlier: Predicted) -> None:
        later = looking.glance()
        if later is not None:
            earlier.moved_to(later, self._tape)

    def _keep_up(self) -> None:
        """Study the model anew if a part was replaced, or other weights are trained now."""
        parts = self.guard("the parts of the model", parts_of, self._anatomy.model)
        if parts != self._parts:
            self._study()

    def _look_inside(self) -> None:
        self._predicted = None
        self._keep_up()
        if self._looking is None and not self._find_probe():
            return
        assert self._looking is not None
        self._predicted = self._looking.look(self._tape)
        self._gradients.called = self._looking.called
        if self._predicted is None:
            return
        has_guessing = self._judge.guessing is not None or not self._judge.counts_tokens
        if not has_guessing and self._predicted.targets is not None:
            self._judge.guessing = math.log(self._predicted.logits.shape[-1])
        self.guard("reference.*", self._compare, self._predicted)

    def _find_probe(self) -> bool:
        """Whether there are rows to look through by now."""
        if self._anatomy.is_sharded:
            return False
        capture = self._capture
        probe = self._find() if callable(self._find) else capture.probe() if capture else None
        if probe is None:
            return False
        self._looking = ProbeRunner(self._anatomy, probe)
        if capture is not None:
            self._judge.baselines = capture.baselines() or self._judge.baselines
        return True

    def _compare(self, predicted: Predicted) -> None:
        """How far the model is from another, asked anew: a reference that learns too is a fault."""
        assert self._looking is not None
        other_predicted: Predicted | None = None
        name: Other = "reference"
        if self.other is not None:
            name, call = self.other
            other_predicted = self._looking.glance(call=call)
        elif self._reference is not None and self._capture is not None:
            call = self._capture.calling(self._reference)
            other_predicted = self._looking.glance(self._reference, call)
        if other_predicted is not None:
            predicted.compared(name, other_predicted, self._tape, first=self.updates == 0)

    def _hear(self, arrived: tuple[int, list[tuple[Column, list[float]]]] | None) -> None:
        """Judge what has arrived, a step old; tell it where it is more than a loss."""
        if arrived is None:
            return
        step, readings = arrived
        readings = [reading for reading in readings if reading[0].id not in self.told_elsewhere]
        self._judge.read(step, readings)
        if not any(column.id != "loss" for column, _ in readings):
            return
        self._rounds.doubt(self._judge.doubted, step)
        tell(self.guard, step, self.signs, self.listeners, self._logs)
