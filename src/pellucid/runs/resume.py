"""Going on from a checkpoint, bit for bit.

Comes in: a run's folder, or one of its checkpoints. Goes out: the finished `Run`. It does not know
how a run is started.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from pellucid.checkpoints import Shelf
from pellucid.checkpoints import load as load_checkpoint
from pellucid.runs.budget import check_beginning
from pellucid.runs.folder import existing_folder
from pellucid.runs.follow import follow, memory_refused, shown_to
from pellucid.runs.load import Run, load, read_config, read_plan
from pellucid.runs.plan import check_plan
from pellucid.runs.rebuild import rebuild, restore
from pellucid.runs.records import cut_after
from pellucid.runs.rewards import find_reward, same_reward
from pellucid.training import Interrupts, Observer, Progress, Resumed, Watcher


def resume(
    path: str | Path,
    *,
    reward: str | None = None,
    observers: Sequence[Observer] = (),
    watchers: Sequence[Watcher] = (),
    show: bool = True,
    allow_drift: bool = False,
    interrupts: Interrupts | None = None,
    force: bool = False,
) -> Run:
    """Go on with a run from its latest checkpoint, or from the one that `path` names.

    On a CPU the rest of the run is bit for bit what it would have been. A run with a `reward` has
    to be told it again: no file may name code to be run. `allow_drift` also lets it be another.
    With `force` it goes on even if more memory is expected to be needed than is free.

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
        check_beginning(run, watched=bool(watchers), force=force)
        job = rebuild(folder, run, plan, reward=rewards)
        checkpoint = named or _latest(folder.shelf)
        progress = Progress()
        if checkpoint is not None:
            progress = restore(job, load_checkpoint(checkpoint))
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
