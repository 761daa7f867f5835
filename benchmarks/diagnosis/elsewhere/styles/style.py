"""What a style of loop is, and what all of them share: the rows, and what was found.

Comes in: a setting. Goes out: findings. It knows neither faults nor who judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from benchmarks.diagnosis.elsewhere.families import Kind, Split
from benchmarks.diagnosis.elsewhere.parts import Batch, Loop, Parts
from benchmarks.diagnosis.elsewhere.texts import Example
from pellucid.diagnosis import Finding, diagnose, history_of_watch
from pellucid.vitals import Watch


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A training before it starts. `options` are those of the watch: none, or the full rate."""

    parts: Parts
    model: nn.Module
    task: str
    rows: list[Example]
    seed: int
    tokenizer: Any
    options: dict[str, Any]

    def batches(self) -> Iterator[Batch]:
        """The batches of all updates, each of as many parts as the loop accumulates."""
        draws = torch.Generator().manual_seed(self.seed)
        for at in range(self.parts.updates * self.parts.micro):
            chosen = self.parts.drawn(self.rows, at, draws)
            yield self.parts.joined([self.rows[i] for i in chosen], self.task)

    def loop(self) -> Loop:
        """The loop, with its optimiser and its schedule."""
        optimizer = self.parts.optimizer(self.model)
        schedule = self.parts.scheduled(optimizer)
        loop = Loop(self.parts, self.model, optimizer, schedule, self.task)
        if self.task == "dpo":
            loop.kept["reference"] = self.parts.reference(self.model)
        return loop


@dataclass(frozen=True)
class Seen:
    """What was found, and what it cost: seconds of watching, and of training without it."""

    findings: list[Finding]
    watching: float
    training: float
    readings: int


def seen(watch: Watch) -> Seen:
    """What a watch has found, as its page says to ask."""
    cost = watch.cost
    return Seen(
        diagnose(history_of_watch(watch)), cost.seconds, cost.training_seconds, cost.n_readings
    )


@dataclass(frozen=True, kw_only=True)
class Style:
    """A way to write a loop.

    `writes` are the pieces that its users write themselves: faults are made in these. `tasks` is
    what it is used for, with the kinds of model. `packed`: its rows are windows of equal length.
    """

    name: str
    split: Split
    tasks: dict[str, tuple[Kind, ...]]
    writes: frozenset[str]
    train: Callable[[Setting], Seen]
    base: Parts = field(default_factory=Parts)
    packed: bool = False


LANGUAGE: dict[str, tuple[Kind, ...]] = {
    "lm": ("decoder",),
    "mlm": ("encoder",),
    "seq2seq": ("pair",),
}
CLASSES: dict[str, tuple[Kind, ...]] = {"classify": ("encoder", "decoder")}
BUILT = frozenset({"config", "tuned", "prepared", "optimizer", "scheduled"})
IN_THE_LOOP = frozenset(
    {"drawn", "joined", "loss", "micro", "back", "clipped", "stepped", "advanced", "cleared"}
) | {"between"}
