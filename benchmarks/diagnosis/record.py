"""A training that is seen once, live, and written down: what a `History` is made of, repeatedly.

Comes in: a training. Goes out: plain values, on disk, and a `History` of them. Recording is apart
from judging: thresholds may change, and nothing has to be trained again. Measurements are kept as
they are; words are computed again with the thresholds of today. Findings of probes are kept as they
were found.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.diagnosis.training import Training, train
from pellucid import config
from pellucid.config import run_from_table, run_to_toml
from pellucid.diagnosis import (
    Evidence,
    Expectations,
    Facts,
    Finding,
    History,
    Reading,
    check,
    history_of_watch,
)
from pellucid.diagnosis.history.run import facts_of
from pellucid.presets import find
from pellucid.vitals import watch
from pellucid.vitals.async_metrics import Column
from pellucid.vitals.label_baselines import Baselines, baselines
from pellucid.vitals.probe import Probe
from pellucid.vitals.rules import rules_of
from pellucid.vitals.verdicts import VerdictTracker

Record = dict[str, Any]
#: Batches for `check`, as a user would pass the first ones of a loader.
_BATCHES = 6


def record(training: Training) -> Record:
    """Check, watch and train it; returns its record."""
    t = training
    started = time.process_time()
    batches = [t.batch(update) for update in range(_BATCHES)]
    first = batches[0]
    findings = check(
        t.model,
        [batch.ids for batch in batches],
        first.labels,
        optimizer=t.optimisers[0] if len(t.optimisers) == 1 else _Optimisers(t.optimisers),
        loss=t.loss,
        tokenizer=t.tokenizer,
        declared=t.declared,
        ignore=t.ignore,
    )
    checked = time.process_time()
    labels = torch.cat([batch.labels for batch in batches])
    log: list[Any] = []
    with watch(
        t.model,
        t.optimisers,
        probe=_probe(t),
        clip_norm=t.run.training.clip_norm,
        max_overhead=None,
    ) as watched:
        chance_losses = baselines(labels)
        watched.judge.baselines = chance_losses
        _listen(watched.judge, log)
        training_log = train(t, watched)
    ended = time.process_time()
    live = history_of_watch(watched, findings=findings)
    stopped = live.stopped
    if stopped is None and training_log.stopped is not None:
        stopped = (training_log.stopped, "loss", "")
    return {
        "config": run_to_toml(t.run),
        "declared": asdict(t.declared),
        "ignore": list(t.ignore),
        "facts": asdict(_facts(t, live.facts)),
        "losses": training_log.losses,
        "held_out": training_log.held_out,
        "norms": training_log.norms,
        "rates": training_log.rates,
        "told": log,
        "guessing": watched.judge.guessing,
        "baselines": list(chance_losses),
        "stopped": stopped,
        "findings": [asdict(finding) for finding in live.findings],
        "outcome": math.inf if training_log.stopped is not None else t.outcome(),
        "seconds": {
            "check": checked - started,
            "train": ended - checked,
            "watching": watched.cost.seconds,
        },
    }


class _Optimisers:
    """Optimisers that step together, as `check` knows them."""

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        self.parts = parts


def _probe(t: Training) -> Probe | None:
    """The first rows, for models that take more than ids; else the watch finds its own."""
    batch = t.batch(0)
    if t.arch in ("gpt", "llama"):
        return None
    small_batch = batch.cut(slice(0, 4))
    return Probe(lambda: t.logits(small_batch), small_batch.labels)


def _listen(judge: VerdictTracker, log: list[Any]) -> None:
    """Keep what the judge reads."""
    read, rate = judge.read, judge.rate

    def reading(step: int, readings: Sequence[tuple[Column, list[float]]]) -> None:
        log.append([step, [[c.id, list(c.places), _short(v)] for c, v in readings]])
        read(step, readings)

    def rating(learning_rate: float) -> None:
        log.append([None, learning_rate])
        rate(learning_rate)

    judge.read = reading
    judge.rate = rating


def _short(values: list[float]) -> list[float]:
    """Seven digits are enough."""
    return [float(f"{value:.7g}") for value in values]


def _facts(t: Training, live: Facts) -> Facts:
    """What model, optimiser and watch tell; what they cannot know is read in the config."""
    budget = t.run.training.budget
    assert isinstance(budget, config.Steps)
    config_facts = facts_of(t.run, budget.count)
    live_facts = {name: value for name, value in asdict(live).items() if value is not None}
    training_facts = {
        "batch_tokens": t.run.training.batch_size * t.feed.time,
        "precision": "bfloat16" if t.autocast else "float32",
        "pretrained": t.declared.pretrained,
    }
    return replace(config_facts, **(training_facts | live_facts))


def write(record: Record, path: Path) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
        json.dump(record, file)
    os.replace(file.name, path)


def read(path: Path) -> Record:
    """The record in a file."""
    return json.loads(path.read_text(encoding="utf-8"))


def history(record: Record, last_update: int | None = None) -> History:
    """The input of `diagnose`: the whole record, or only the part up to some update.

    Signs are judged anew, with the thresholds that there are now.
    """
    last = math.inf if last_update is None else last_update
    stopped = record["stopped"]
    facts = dict(record["facts"])
    facts["betas"] = None if facts["betas"] is None else tuple(facts["betas"])
    run = run_from_table(tomllib.loads(record["config"]), find)
    return History(
        name=record["name"],
        losses=_points(record["losses"], last),
        held_out=_points(record["held_out"], last),
        grad_norms=_points(record["norms"], last),
        rates=_points(record["rates"], last),
        signs=_judged(record, last),
        facts=Facts(**facts),
        findings=tuple(finding(fields) for fields in record["findings"]),
        stopped=None if stopped is None or stopped[0] > last else tuple(stopped),
        config=run,
    )


def declared(record: Record) -> Expectations:
    """The expectations of the model."""
    fields = dict(record["declared"])
    return Expectations(**(fields | {"frozen": tuple(fields["frozen"])}))


def finding(fields: dict[str, Any]) -> Finding:
    """A finding from plain values."""
    evidence = tuple(Evidence(**evidence_fields) for evidence_fields in fields["evidence"])
    return Finding(**(fields | {"evidence": evidence, "patch": tuple(fields["patch"])}))


def _points(points: list[list[float]], last: float) -> tuple[tuple[int, float], ...]:
    return tuple((int(step), value) for step, value in points if step <= last)


def _judged(record: Record, last: float) -> dict[str, tuple[Reading, ...]]:
    judge = VerdictTracker(rules_of(None))
    judge.guessing = record["guessing"]
    judge.baselines = Baselines(*record["baselines"])
    judge.clip_norm = record["facts"]["clip_norm"]
    readings_by_sign: dict[str, list[Reading]] = {}
    for step, readings in record["told"]:
        if step is None:
            judge.rate(readings)
            continue
        if step > last:
            break
        judge.read(step, [(Column(id, tuple(places)), values) for id, places, values in readings])
        if all(id == "loss" for id, _, _ in readings):
            continue
        for sign in judge.signs.values():
            if sign.step == step:
                reading = Reading(step, sign.value, sign.word, sign.place)
                readings_by_sign.setdefault(sign.id, []).append(reading)
    return {id: tuple(readings) for id, readings in readings_by_sign.items()}
