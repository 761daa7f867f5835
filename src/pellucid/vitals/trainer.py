"""Watching pellucid's own training: the same watch, told what the loop already knows.

Losses and norms of gradients are in the events already: they are not measured twice. The windows
that words depend on are kept in `vitals.json` in the run's folder, by the steps of its checkpoints.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch

from pellucid.batches import IGNORED, Batch, TokenBatch
from pellucid.checkpoints import write_text
from pellucid.errors import PellucidError
from pellucid.json_text import json_text
from pellucid.objectives import DPO, PolicyGradient
from pellucid.reader import read_json_table
from pellucid.training import (
    Event,
    Guard,
    Job,
    Noticed,
    Observer,
    Vitals,
    Watcher,
    events,
)
from pellucid.vitals.label_baselines import Baselines, baselines
from pellucid.vitals.loop_watch import Watch
from pellucid.vitals.overhead_budget import MAX_OVERHEAD
from pellucid.vitals.probe_rows import Rows
from pellucid.vitals.rules import Rule
from pellucid.vitals.signs import Sign, rows
from pellucid.vitals.watch import checked

#: Of how many rows the labels' entropies are estimated.
_COUNTED_ROWS = 64
#: Of how many checkpoints the windows are kept.
_MAX_STATES = 8


def watcher(
    *,
    max_overhead: float | None = MAX_OVERHEAD,
    log: object = None,
    thresholds: str | Path | None = None,
) -> Watcher:
    """What `pellucid.train(..., watchers=[...])` takes to watch a run for the five equations.

    The arguments are those of `watch`.

    Raises:
        ConfigError: an argument cannot be used.
    """
    checked({"max_overhead": max_overhead, "log": log, "thresholds": thresholds})

    def look_into(job: Job, tell: Observer) -> AbstractContextManager[Observer]:
        return _watched(job, tell, max_overhead, log, thresholds)

    return look_into


@contextmanager
def _watched(
    job: Job,
    tell: Observer,
    max_overhead: float | None,
    log: object,
    thresholds: str | Path | None,
) -> Generator[Observer]:
    guard = Guard()
    begun = guard("the whole training", _begin, job, max_overhead, log, thresholds)
    if begun is None:
        yield _nothing
        return
    watch, job_rows = begun
    with watch:
        yield _Observer(watch, job_rows, tell, job)


def _nothing(event: Event) -> None:
    """Who observes a training that could not be watched."""


def _begin(
    job: Job, max_overhead: float | None, log: object, thresholds: str | Path | None
) -> tuple[Watch, Rows]:
    size = job.settings.batch_size
    # answers are drawn anew for each update, and rewarded by somebody's code: not asked for here
    first = None if isinstance(job.objective, PolicyGradient) else job.batch(0, size)
    job_rows = Rows(job, first)
    watch = Watch(
        job.model,
        job.optimiser.parts,
        probe=job_rows.probe,
        reference=None,
        clip_norm=job.settings.clip_norm,
        max_overhead=max_overhead,
        log=log,
        thresholds=thresholds,
    )
    watch.other = job_rows.other()
    watch.judge.baselines = None if first is None else _baselines(job, first, size)
    watch.judge.counts_tokens = job.unit == "tokens"
    watch.judge.answers_are_given = isinstance(job.objective, DPO)
    watch.judge.excused = _excused(job)
    watch.told_elsewhere = {"gradient.norm"}
    watch.stops_clock = True
    return watch, job_rows


def _excused(job: Job) -> dict[str, str]:
    """Signs that say nothing of what this objective minimises, each with the reason."""
    excuses: dict[str, str] = {}
    if isinstance(job.objective, DPO | PolicyGradient):
        answers = "answers are weighed against each other, and a certain token ends no learning"
        excuses |= dict.fromkeys(("predictions.certain", "predictions.error_norm"), answers)
    if isinstance(job.objective, PolicyGradient):
        even = "where all answers are worth the same there is next to no gradient, and rightly so"
        small = ("gradient.norm", "gradient.depth_ratio", "gradient.zeros", "update.effective_step")
        excuses |= dict.fromkeys(small, even)
    return excuses


class _Observer:
    """Hands the run's events to a watch, and its signs to the run."""

    def __init__(self, watch: Watch, job_rows: Rows, tell: Observer, job: Job) -> None:
        self._watch = watch
        self._seen = job_rows
        self._tell = tell
        self._total = job.plan.total_steps
        # the loss of a policy is log P of what it has drawn itself: it has no way to go
        self._has_loss = not isinstance(job.objective, PolicyGradient)
        self._new: tuple[int, Sequence[Sign]] | None = None
        self._kept: Path | None = None
        self._vitals: Vitals | None = None
        watch.listeners.append(self._keep)

    def __call__(self, event: Event) -> None:
        self._watch.guard("the run's events", self._take, event)
        vitals, self._vitals = self._vitals, None
        if vitals is not None:
            self._tell(vitals)  # whoever records it may stop the run, as with any event

    def _take(self, event: Event) -> None:
        match event:
            case events.Started() | events.Resumed():
                self._kept = Path(event.folder) / "vitals.json" if event.folder else None
                if isinstance(event, events.Started) and not self._watch.judge.counts_tokens:
                    self._watch.judge.guessing = event.guessing_nats
                if isinstance(event, events.Resumed):
                    self._watch.updates = self._seen.step = event.step
                    self._watch.guard("earlier readings", self._recall, event.step)
                self._watch.go_on()
            case events.Logged():
                first = event.step - len(event.losses) + 1
                pairs = zip(event.losses, event.grad_norms, strict=True)
                for step, (loss, norm) in enumerate(pairs, start=first):
                    if self._has_loss:
                        self._watch.judge.loss(step, loss)
                    self._watch.judge.norm(step, norm)
            case events.CheckpointSaved():
                self._watch.flush()
                self._watch.guard("saving readings", self._remember, event.step)
            case events.StepFinished():
                if event.step == self._total:
                    self._watch.flush()
                self._say()
                self._watch.go_on()
            case _:
                pass

    def _keep(self, step: int, signs: Sequence[Sign]) -> None:
        self._new = (step, signs)

    def _say(self) -> None:
        if self._new is None:
            return
        step, signs = self._new
        self._new = None
        cost = self._watch.cost
        took = (cost.seconds, cost.training_seconds, cost.looks)
        self._vitals = vitals_event(step, signs, self._watch.judge.rules, took)

    def _remember(self, step: int) -> None:
        if self._kept is None:
            return
        states, _ = _read(self._kept)
        states[str(step)] = self._watch.state_dict()
        recent = dict(sorted(states.items(), key=lambda item: int(item[0]))[-_MAX_STATES:])
        write_text(self._kept, json_text(recent))

    def _recall(self, step: int) -> None:
        if self._kept is None:
            return
        states, problem = _read(self._kept)
        try:
            if str(step) in states:
                self._watch.load_state_dict(states[str(step)])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            text = f"{self._kept.name} cannot be read ({problem}): vital signs begin anew"
            self._tell(Noticed(step=step, text=text))


def vitals_event(
    step: int,
    signs: Sequence[Sign],
    rules: Mapping[str, Rule],
    cost: tuple[float, float, int] | None = None,
) -> Vitals:
    """Signs as the run records them."""
    five_rows = rows(signs)
    speakers = tuple(
        ("", "") if (s := row.sign) is None else (s.id, rules[s.id].why(s.word, s.value))
        for row in five_rows
    )
    return Vitals(
        step=step,
        signs=tuple(
            (sign.id, sign.equation, sign.value, sign.word, sign.step, sign.where) for sign in signs
        ),
        rows=tuple((row.name, row.word or "") for row in five_rows),
        speakers=speakers,
        cost=cost,
    )


def _baselines(job: Job, first: Batch, size: int) -> Baselines | None:
    """What the labels tell by themselves; None where they are no running text."""
    if not isinstance(first, TokenBatch) or (first.targets != IGNORED).float().mean() < 0.5:
        return None
    later = [job.batch(place, size) for place in range(size, _COUNTED_ROWS, size)]
    alike = [batch for batch in later if isinstance(batch, TokenBatch)]
    targets = [batch.targets for batch in (first, *alike)]
    width = max(t.shape[1] for t in targets)
    filled = [torch.nn.functional.pad(t, (0, width - t.shape[1]), value=IGNORED) for t in targets]
    return baselines(torch.cat(filled))


def _read(file: Path) -> tuple[dict[str, Mapping[str, Any]], str]:
    """The windows by step; and why there are none, where the file is damaged."""
    if not file.is_file():
        return {}, ""
    try:
        states = read_json_table(file)
    except PellucidError as error:
        return {}, str(error)
    return {step: state for step, state in states.items() if step.isdecimal()}, ""
