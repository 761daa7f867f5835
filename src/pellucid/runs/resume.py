"""Going on from a checkpoint, bit for bit.

Comes in: a run's folder, or one of its checkpoints. Goes out: the finished `Run`. It does not know
how a run is started.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pellucid.checkpoints import Checkpoint, Shelf
from pellucid.checkpoints import load as load_checkpoint
from pellucid.runs.build import build_job, build_model
from pellucid.runs.compiling import compile_blocks
from pellucid.runs.data import open_data
from pellucid.runs.folder import existing_folder
from pellucid.runs.follow import follow, memory_refused, shown_to
from pellucid.runs.load import Run, fill, load, read_config, read_plan
from pellucid.runs.plan import check_plan
from pellucid.runs.records import cut_after
from pellucid.runs.rewards import find_reward, same_reward
from pellucid.runs.tasks import Given, assemble_task
from pellucid.text import Tokenizer
from pellucid.training import (
    Interrupts,
    Job,
    Observer,
    Progress,
    Resumed,
    Watcher,
    restore_generators,
)


def resume(
    path: str | Path,
    *,
    reward: str | None = None,
    observers: Sequence[Observer] = (),
    watchers: Sequence[Watcher] = (),
    show: bool = True,
    allow_drift: bool = False,
    interrupts: Interrupts | None = None,
) -> Run:
    """Go on with a run from its latest checkpoint, or from the one that `path` names.

    On a CPU the rest of the run is bit for bit what it would have been. A run with a `reward` has
    to be told it again: no file may name code to be run. `allow_drift` also lets it be another.

    Raises:
        RunError: no run, in use, or this machine cannot compute as the plan says.
        CheckpointError: the checkpoint is damaged.
    """
    folder, named = existing_folder(Path(path))
    with folder.locked(), shown_to(show, observers) as shown:
        run = read_config(folder)
        run.check_objective()
        plan = read_plan(folder)
        check_plan(plan, allow_drift=allow_drift)
        torch.set_num_threads(plan.threads)
        if not allow_drift:
            same_reward(run.objective, folder, reward)
        rewards = find_reward(run.objective, reward)
        tokenizer = Tokenizer.load(folder.tokenizer)
        data = open_data(folder, run)
        model = build_model(run, folder, torch.device(plan.device))
        if plan.compile:
            compile_blocks(model)
        given = Given(
            run=run, folder=folder, model=model, tokenizer=tokenizer, data=data, reward=rewards
        )
        job = build_job(run, plan, folder, model, assemble_task(given))
        checkpoint = named or _latest(folder.shelf)
        progress = Progress()
        if checkpoint is not None:
            progress = _restore(job, load_checkpoint(checkpoint))
            folder.shelf.rewind(checkpoint)
        cut_after(folder.metrics, progress.step)
        resumed = Resumed(
            step=progress.step,
            total_steps=plan.total_steps,
            checkpoint="the start" if checkpoint is None else str(checkpoint),
            folder=str(folder.path),
        )
        with memory_refused(run):
            follow(job, progress, folder, [resumed], shown, interrupts, watchers)
    return load(folder.path)


def _latest(shelf: Shelf) -> Path | None:
    """The newest checkpoint; None for a run that was stopped before its first one."""
    return shelf.latest() if shelf.steps() else None


def _restore(job: Job, checkpoint: Checkpoint) -> Progress:
    fill(job.model, checkpoint.model, job.model.device)
    job.optimiser.load_state_tensors(checkpoint.optimiser)
    restore_generators(checkpoint.random, checkpoint.state["generators"])
    saved: dict[str, Any] = checkpoint.state["progress"]
    numbers: dict[str, Any] = {k: math.inf if v is None else v for k, v in saved.items()}
    return Progress(**numbers)
