"""Checkpoints are written during the training, one at a time, and reported after the write."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.errors import CheckpointError
from pellucid.training import CheckpointSaved, Event, Interrupts, Job, Progress, StepFinished, train
from support.watched import job_of, small


def job_that_saves(save: Any, *, steps: int = 8) -> Job:
    job = job_of(small(n_layers=1), steps=steps)
    settings = replace(job.settings, checkpoint_every=2)
    return replace(job, settings=settings, save=save)


def run(job: Job, observer: Any = lambda event: None) -> list[Event]:
    run_events: list[Event] = []
    train(job, Progress(), (run_events.append, observer), Interrupts())
    return run_events


def test_the_run_goes_on_while_a_checkpoint_is_written_and_tells_it_afterwards() -> None:
    finish, copies = threading.Event(), list[Any]()

    def save(step: int, checkpoint: Any, best: bool) -> Path:
        before = {name: tensor.clone() for name, tensor in checkpoint.model.items()}
        if step == 2:
            assert finish.wait(60)
        copies.append(all(torch.equal(before[name], t) for name, t in checkpoint.model.items()))
        return Path(f"step-{step}")

    def release(event: Event) -> None:
        if isinstance(event, StepFinished) and event.step == 3:
            finish.set()

    run_events = run(job_that_saves(save), release)
    steps = [event.step for event in run_events if isinstance(event, CheckpointSaved)]
    assert steps == [2, 4, 6, 8]
    place_of_save = run_events.index(
        next(event for event in run_events if isinstance(event, CheckpointSaved))
    )
    assert run_events.index(StepFinished(step=3)) < place_of_save  # it was still being written
    assert copies == [True] * 4  # later updates did not change what is written


def test_an_error_of_the_disk_stops_the_run_at_the_next_step() -> None:
    failed = threading.Event()

    def save(step: int, checkpoint: object, best: bool) -> Path:
        failed.set()
        raise CheckpointError("the disk is full")

    def hold(event: Event) -> None:
        if isinstance(event, StepFinished) and event.saving:
            assert failed.wait(60)

    run_events: list[Event] = []
    with pytest.raises(CheckpointError, match="the disk is full"):
        train(job_that_saves(save, steps=50), Progress(), (run_events.append, hold), Interrupts())
    assert not any(isinstance(event, CheckpointSaved) for event in run_events)
    assert max(event.step for event in run_events if isinstance(event, StepFinished)) <= 4


def test_only_one_checkpoint_is_written_at_a_time() -> None:
    busy = threading.Lock()

    def save(step: int, checkpoint: object, best: bool) -> Path:
        assert busy.acquire(blocking=False)
        threading.Event().wait(0.05)
        busy.release()
        return Path(f"step-{step}")

    steps = [
        event.step for event in run(job_that_saves(save)) if isinstance(event, CheckpointSaved)
    ]
    assert steps == [2, 4, 6, 8]
