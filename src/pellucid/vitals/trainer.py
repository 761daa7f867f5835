"""Watching pellucid's own training: the same watch, with the numbers that the loop has anyway.

Events already hold losses and norms of gradients, so they are not measured twice. `vitals.json` in
the run's folder keeps the windows that words depend on, by the steps of its checkpoints.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
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
from pellucid.vitals.watch_report import EARLIER_READINGS

#: Rows from which the entropies of the labels are estimated.
_COUNTED_ROWS = 64
#: Checkpoints whose windows are kept.
_MAX_STATES = 8


def watcher(
    *,
    max_overhead: float | None = MAX_OVERHEAD,
    log: object = None,
    thresholds: str | Path | None = None,
) -> Watcher:
    """A watcher for `pellucid.train(..., watchers=[...])`: it watches the five equations.

    Args:
        max_overhead: As for `watch`.
        log: As for `watch`.
        thresholds: As for `watch`.

    Raises:
        ConfigError: An argument cannot be used.
    """
    options = checked({"max_overhead": max_overhead, "log": log, "thresholds": thresholds})
    return partial(_watched, options)


@contextmanager
def _watched(options: dict[str, Any], job: Job, observer: Observer) -> Generator[Observer]:
    started = Guard()("the whole training", _begin, job, options)
    if started is None:
        yield _ignore
        return
    with started as watch:
        yield _Observer(watch, observer, job)


def _ignore(event: Event) -> None:
    """Observes a training that could not be watched."""


def _begin(job: Job, options: dict[str, Any]) -> Watch:
    batch_size = job.settings.batch_size
    # each update samples its own answers, and your code rewards them: do not run it for a reading
    first = None if isinstance(job.objective, PolicyGradient) else job.batch(0, batch_size)
    job_rows = Rows(job, first)
    watch = Watch(
        job.model,
        job.optimiser.parts,
        probe=job_rows.probe,
        reference=None,
        clip_norm=job.settings.clip_norm,
        **options,
    )
    watch.other = job_rows.other()
    watch.judge.baselines = None if first is None else _baselines(job, first, batch_size)
    watch.judge.counts_tokens = job.unit == "tokens"
    watch.judge.has_given_answers = isinstance(job.objective, DPO)
    watch.judge.excuses = _find_excuses(job)
    watch.trainer_signs = {"gradient.norm"}
    watch.stops_clock = True
    return watch


def _find_excuses(job: Job) -> dict[str, str]:
    """Signs that mean nothing for this objective, each with the reason."""
    excuses: dict[str, str] = {}
    if isinstance(job.objective, DPO | PolicyGradient):
        answers = (
            "answers are compared with each other: learning continues after a token is certain"
        )
        excuses |= dict.fromkeys(("predictions.certain", "predictions.error_norm"), answers)
    if isinstance(job.objective, PolicyGradient):
        even = "if all answers have the same reward, the gradient is rightly close to zero"
        small = ("gradient.norm", "gradient.depth_ratio", "gradient.zeros", "update.effective_step")
        excuses |= dict.fromkeys(small, even)
    return excuses


class _Observer:
    """Passes the run's events to a watch, and its signs to the run."""

    def __init__(self, watch: Watch, observer: Observer, job: Job) -> None:
        self._watch = watch
        self._observer = observer
        self._job = job
        # the loss of a policy is log P of its own samples: it need not fall
        self._has_loss = not isinstance(job.objective, PolicyGradient)
        self._new: tuple[int, Sequence[Sign]] | None = None
        self._file: Path | None = None
        self._vitals: Vitals | None = None
        self._saving: dict[int, Mapping[str, Any]] = {}
        watch.listeners.append(self._keep_signs)

    def __call__(self, event: Event) -> None:
        self._watch.guard("the run's events", self._take, event)
        vitals, self._vitals = self._vitals, None
        if vitals is not None:
            self._observer(vitals)  # an observer may stop the run, as with any event

    def _take(self, event: Event) -> None:
        match event:
            case events.Started() | events.Resumed():
                self._file = Path(event.folder) / "vitals.json" if event.folder else None
                if isinstance(event, events.Started) and not self._watch.judge.counts_tokens:
                    self._watch.judge.guessing = event.guessing_nats
                if isinstance(event, events.Resumed):
                    self._watch.updates = event.step
                    self._watch.guard("earlier readings", self._recall, event.step)
                self._watch.resume()
            case events.Logged():
                self._watch.resume()  # while the clock stands still, nothing counts as watching
                self._watch.guard("losses and norms", self._judge, event)
                self._watch.pause()
            case events.CheckpointSaved():
                if event.step not in self._saving:
                    self._snapshot(event.step)
                self._watch.guard("saving readings", self._remember, event.step)
            case events.StepFinished():
                if event.saving:
                    self._snapshot(event.step)
                if event.step == self._job.total_steps:
                    self._watch.flush()
                self._build_event()
                self._watch.resume()
            case _:
                pass

    def _judge(self, event: events.Logged) -> None:
        """Judge the losses and the norms of the updates since the last time."""
        first = event.step - len(event.losses) + 1
        pairs = zip(event.losses, event.grad_norms, strict=True)
        for step, (loss, norm) in enumerate(pairs, start=first):
            if self._has_loss:
                self._watch.judge.loss(step, loss)
            self._watch.judge.norm(step, norm)

    def _snapshot(self, step: int) -> None:
        """Keep the readings as they are at a checkpoint, until that is on the disk."""
        self._watch.flush()
        self._saving = {step: deepcopy(self._watch.state_dict())}

    def _keep_signs(self, step: int, signs: Sequence[Sign]) -> None:
        self._new = (step, signs)

    def _build_event(self) -> None:
        if self._new is None:
            return
        step, signs = self._new
        self._new = None
        cost = self._watch.cost
        took = (cost.seconds, cost.training_seconds, cost.n_readings)
        self._vitals = vitals_event(step, signs, self._watch.judge.rules, took)

    def _remember(self, step: int) -> None:
        if self._file is None:
            return
        states, _ = _read(self._file)
        states[str(step)] = self._saving.pop(step)
        recent = dict(sorted(states.items(), key=lambda item: int(item[0]))[-_MAX_STATES:])
        write_text(self._file, json_text(recent))

    def _recall(self, step: int) -> None:
        if self._file is None:
            return
        states, problem = _read(self._file)
        if str(step) in states:
            self._watch.load_state_dict(states[str(step)])
            problem = self._watch.guard.off.get(EARLIER_READINGS, problem)
        if problem:
            text = f"{self._file.name} cannot be read ({problem}): vital signs start afresh"
            self._observer(Noticed(step=step, text=text))


def vitals_event(
    step: int,
    signs: Sequence[Sign],
    rules: Mapping[str, Rule],
    cost: tuple[float, float, int] | None = None,
) -> Vitals:
    """Signs as the event that the run records.

    Args:
        step: Finished updates.
        signs: The latest of each sign.
        rules: The rules by sign.
        cost: Seconds of watching, seconds of training, and the number of readings.
    """
    five_rows = rows(signs)
    speakers = tuple(
        ("", "")
        if (s := row.sign) is None
        else (s.id, rules[s.id].describe_breach(s.word, s.value))
        for row in five_rows
    )
    return Vitals(
        step=step,
        signs=tuple(
            (sign.id, sign.equation, sign.value, sign.word, sign.step, sign.place) for sign in signs
        ),
        rows=tuple((row.name, row.word or "") for row in five_rows),
        speakers=speakers,
        cost=cost,
    )


def _baselines(job: Job, first: Batch, batch_size: int) -> Baselines | None:
    """The losses that counting labels reaches; None if the labels are not running text."""
    if not isinstance(first, TokenBatch) or (first.targets != IGNORED).float().mean() < 0.5:
        return None
    later_batches = [
        job.batch(place, batch_size) for place in range(batch_size, _COUNTED_ROWS, batch_size)
    ]
    token_batches = [batch for batch in later_batches if isinstance(batch, TokenBatch)]
    targets = [batch.targets for batch in (first, *token_batches)]
    width = max(t.shape[1] for t in targets)
    filled = [torch.nn.functional.pad(t, (0, width - t.shape[1]), value=IGNORED) for t in targets]
    return baselines(torch.cat(filled))


def _read(file: Path) -> tuple[dict[str, Mapping[str, Any]], str]:
    """The windows by step; and the problem, if the file is damaged."""
    if not file.is_file():
        return {}, ""
    try:
        states = read_json_table(file)
    except PellucidError as error:
        return {}, str(error)
    return {step: state for step, state in states.items() if step.isdecimal()}, ""
