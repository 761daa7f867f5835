"""Watching a training from outside: any model, any torch optimiser, any loop.

Comes in: a model and its optimiser, as they are called by somebody's loop. Goes out: signs, and
what it cost to have them. It changes nothing: not a weight, not a random number.

An update is known by its optimiser's hooks. Some updates are looked at: gradients and the step they
make every few, the model's inside (see `probe`) less often. How often is bounded by what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError
from pellucid.vitals.anatomy import study
from pellucid.vitals.capture import Capture
from pellucid.vitals.clearing import Clearing, cleared_by
from pellucid.vitals.judge import Judge
from pellucid.vitals.labels import baselines
from pellucid.vitals.logs import Log, log_to, numbers
from pellucid.vitals.losses import Losses
from pellucid.vitals.missing import missing
from pellucid.vitals.predictions import Other, Predicted
from pellucid.vitals.probe import Looking, Probe
from pellucid.vitals.purse import Cost
from pellucid.vitals.record import Point
from pellucid.vitals.rounds import Rounds
from pellucid.vitals.rules import rules_of
from pellucid.vitals.seen import Seen
from pellucid.vitals.signs import Row, Sign, rows, told
from pellucid.vitals.tape import Column, Tape
from pellucid.vitals.updates import Optimisers, Updates, optimisers_of


class Watch:
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
        self._model = model
        self._anatomy = study(model)
        if not self._anatomy.parameters:
            raise ConfigError("the model has no parameter that is trained: there is nothing to see")
        self._optimisers = optimisers_of(optimizer)
        self._updates = Updates(self._anatomy, self._optimisers)
        self._clearing = Clearing(cleared_by(self._optimisers))
        self._judge = Judge(rules_of(thresholds))
        self._tape = Tape()
        device = next(iter(self._anatomy.parameters.values())).device
        self._rounds = Rounds(max_overhead, device)
        #: where the probe is had from, once there is one
        self._find = probe
        self._looking: Looking | None = None
        if isinstance(probe, Probe) and not self._anatomy.is_sharded:
            self._looking = Looking(self._anatomy, probe)
        self._reference = reference
        #: who the predictions are compared with (see `Predicted.compared`), and how it is asked
        self.other: tuple[Other, Callable[[], Tensor | None]] | None = None
        self._judge.clip_norm = clip_norm
        #: ids of what the judge is told by somebody who knows it better
        self.told_elsewhere: set[str] = set()
        #: whether all between an update and `go_on` is no training
        self.stops_clock = False
        self._logs: list[Log] = [] if log is None else [log_to(log)]
        self._capture: Capture | None = None
        self._handles: list[Any] = []
        self._losses = Losses()
        self._predicted: Predicted | None = None
        #: updates that are done
        self.updates = 0
        #: called with the step and its signs, whenever there are new ones
        self.listeners: list[Callable[[int, Sequence[Sign]], None]] = []

    # ---- attaching

    def __enter__(self) -> Self:
        if self._find is None:
            self._capture = Capture(self._model)
        if self._optimisers:
            first, last = self._optimisers[0], self._optimisers[-1]
            self._handles = [
                first.register_step_pre_hook(self._on_step(self._before)),
                last.register_step_post_hook(self._on_step(self._after)),
                *self._clearing.attach(),
            ]
        self._rounds.clock.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if self._capture is not None:
            self._capture.close()
        self.flush()
        self._rounds.clock.pause()

    @staticmethod
    def _on_step(call: Callable[[], None]) -> Callable[..., None]:
        """What torch calls with an optimiser, its arguments and theirs: nothing of it is needed."""

        def hook(*_: object) -> None:
            call()

        return hook

    # ---- what a loop may say

    def step(self, loss: Tensor | float | None = None) -> None:
        """Take the loss of an update, or of a part of it; without an optimiser, one is done."""
        if loss is not None:
            self._losses.add(loss)
        if not self._optimisers:
            self._before()
            self._after()

    def pause(self) -> None:
        """What follows is not training: an evaluation, a checkpoint."""
        self._rounds.clock.pause()

    def go_on(self) -> None:
        """Training goes on."""
        self._rounds.clock.start()

    def flush(self) -> None:
        """Read what is on its way, and wait for it."""
        self._losses.put(self._tape, self._capture)
        self._hear(self._tape.turn(self.updates))
        self._hear(self._tape.read())

    # ---- what is known

    @property
    def signs(self) -> tuple[Sign, ...]:
        """The latest of each sign."""
        return tuple(self._judge.signs.values())

    @property
    def judge(self) -> Judge:
        """Who finds the words; to be told what is measured elsewhere."""
        return self._judge

    @property
    def seen(self) -> Seen:
        """All that causes are found from."""
        probe = None if self._looking is None else self._looking.probe
        return Seen(self._judge, self._anatomy, self._optimisers, probe, self._losses.told)

    @property
    def missing(self) -> dict[str, str]:
        """What cannot be watched in this training, and why."""
        return missing(
            self._anatomy,
            self._looking,
            self._predicted,
            self._updates if self._optimisers else None,
            has_loss="loss.value" in self._judge.signs,
        )

    @property
    def cost(self) -> Cost:
        """What watching has cost so far."""
        return self._rounds.cost

    def summary(self) -> tuple[Row, ...]:
        """The five rows, with a word each."""
        return rows(self.signs)

    def report(self) -> str:
        """The five rows and the cost, as text."""
        lines = [told(row) for row in self.summary()]
        return "\n".join((*lines, self.cost.told(self._rounds.share)))

    def state_dict(self) -> dict[str, Any]:
        """The windows that words depend on, as plain values, for a training that is resumed."""
        return {"updates": self.updates, "judge": self._judge.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.updates = int(state["updates"])
        self._rounds.go_on_after(self.updates)
        self._judge.load_state_dict(state["judge"])

    # ---- an update

    def _before(self) -> None:
        self._rounds.begin(self.updates + 1)
        if self._optimisers:
            rate = float(self._optimisers[0].param_groups[0]["lr"])
            self._judge.rate(rate)
            self._judge.record.rates.add(Point(self.updates + 1, rate))
        if self._rounds.at("inside"):
            with self._rounds.look("inside"):
                self._look_inside()
        if self._rounds.at("gradients"):
            with self._rounds.look("gradients"):
                self._updates.before(self._tape)
                self._clearing.put(self._tape)
                if self._capture is not None:
                    self._capture.put(self._tape)

    def _after(self) -> None:
        self.updates += 1
        self._clearing.stepped()
        if self._rounds.at("gradients"):
            with self._rounds.look("gradients"):
                self._updates.after(self._tape)
        if self._rounds.at("inside") and self._predicted is not None and self._looking is not None:
            with self._rounds.look("inside"):
                after = self._looking.glance()
                if after is not None:
                    self._predicted.moved_to(after, self._tape)
        self._losses.put(self._tape, self._capture)
        self._hear(self._tape.turn(self.updates))
        if self.stops_clock:
            self._rounds.clock.pause()

    def _look_inside(self) -> None:
        if self._looking is None and not self._found():
            return
        assert self._looking is not None
        self._predicted = self._looking.look(self._tape)
        self._updates.called = self._looking.called
        if self._predicted is None:
            return
        known = self._judge.guessing is not None or not self._judge.counts_tokens
        if not known and self._predicted.targets is not None:
            classes = self._predicted.logits.shape[-1]
            self._judge.guessing = float(torch.tensor(classes).double().log())
        self._compare(self._predicted)

    def _found(self) -> bool:
        """Whether there are rows to look through by now."""
        if self._anatomy.is_sharded:
            return False
        capture = self._capture
        probe = self._find() if callable(self._find) else capture.probe() if capture else None
        if probe is None:
            return False
        self._looking = Looking(self._anatomy, probe)
        if capture is not None and capture.labels is not None and capture.labels.ndim == 2:
            self._judge.baselines = baselines(capture.labels)
        return True

    def _compare(self, predicted: Predicted) -> None:
        """How far the model is from another, asked anew: a reference that learns too is a fault."""
        assert self._looking is not None
        found: Predicted | None = None
        name: Other = "reference"
        if self.other is not None:
            name, call = self.other
            found = self._looking.glance(call=call)
        elif self._reference is not None and self._capture is not None:
            call = self._capture.calling(self._reference)
            found = self._looking.glance(self._reference, call)
        if found is not None:
            predicted.compared(name, found, self._tape, first=self.updates == 0)

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
        for listener in self.listeners:
            listener(step, self.signs)
        for log in self._logs:
            log(numbers(self.signs), step)
