"""Resuming a run from a checkpoint, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from pellucid import config
from pellucid.checkpoints import write_text
from pellucid.config import encode
from pellucid.errors import ConfigError, RunError
from pellucid.free_memory import forcing
from pellucid.json_text import json_text
from pellucid.parallel import joined
from pellucid.runs.follow import announce_finished, announce_run, check_alike, follow, led_reward
from pellucid.runs.memory_budget import check_beginning
from pellucid.runs.observe import add_display, explain_memory_errors, observe_job
from pellucid.runs.rebuild import is_of_another_optimiser, rebuild, restore
from pellucid.runs.resume_point import Place, find_place, open_changes
from pellucid.saved_runs.folder import RunFolder, existing_folder
from pellucid.saved_runs.load import Run, load, read_config, read_plan
from pellucid.saved_runs.machine import machine_changes
from pellucid.saved_runs.records import cut_after
from pellucid.saved_runs.replans import settle_replans
from pellucid.saved_runs.seal import BY_STEPS, LENGTH, Change
from pellucid.tasks.rewards import REWARD, check_same_reward, find_reward, reward_changes
from pellucid.training import (
    Drifted,
    Event,
    Interrupts,
    Noticed,
    Observer,
    Progress,
    Resumed,
    Watcher,
    generators_kept,
)

_NEW_OPTIMISER = "the optimiser has changed: it starts without a memory of earlier updates"


@generators_kept()
def resume(
    path: str | Path,
    *,
    steps: int | None = None,
    reward: str | None = None,
    observers: Sequence[Observer] = (),
    watchers: Sequence[Watcher] = (),
    show: bool = True,
    allow_drift: bool = False,
    interrupts: Interrupts | None = None,
    force: bool = False,
) -> Run:
    """Resume a run from a checkpoint.

    On a CPU the run ends bit for bit as without the stop.

    Args:
        path: a run, for its newest whole checkpoint, or one of its checkpoints.
        steps: the updates of the whole run, to train longer than planned.
        reward: what judges answers. A run with a reward needs it again, because no file may name
            code to run.
        observers: functions that are called with every event.
        watchers: functions that also look into the model.
        show: show progress on standard output.
        allow_drift: resume even if config, plan, machine or reward have changed; an event records
            each key with both values.
        interrupts: lets an observer stop the run.
        force: resume even if pellucid expects to need more memory than is free.

    Raises:
        RunError: there is no run, it is in use, or it has changed: names each key and both values.
        CheckpointError: the checkpoint that `path` names is damaged, or all are.
        ConfigError: more updates than `steps` are done.
    """
    folder, checkpoint = existing_folder(Path(path))
    run = read_config(folder)
    with (
        forcing(force),
        joined(run.parallel) as world,
        interrupts or Interrupts() as active_interrupts,
    ):
        run.check_objective()
        check_alike(world, run)
        if world.rank:
            rewards = find_reward(run.objective, reward)
            path = follow(world, active_interrupts, reward=rewards, watchers=watchers)
            return load(path, force=True)
        with folder.locked(), add_display(show, observers) as all_observers:
            plan = read_plan(folder)
            place = find_place(folder, checkpoint)
            longer = _for_ranks(_with_length(run, plan, steps, place), run, world.size)
            drift = [
                *open_changes(place, run, plan, longer),
                *machine_changes(plan),
                *reward_changes(run.objective, place.events, reward),
            ]
            if not allow_drift:
                _refuse([c for c in drift if steps is None or c.key not in BY_STEPS], place)
                check_same_reward(run.objective, folder, reward)
            check_beginning(run, watched=bool(watchers))
            torch.set_num_threads(longer.threads)
            rewards = led_reward(world, find_reward(run.objective, reward))
            settle_replans(folder, plan, place.clock, step=place.step, steps=steps)
            job = rebuild(folder, run, longer, reward=rewards, world=world)
            progress = Progress() if place.saved is None else restore(job, place.saved)
            first = _first_events(folder, place, job.total_steps, drift)
            if longer.growth_steps != plan.growth_steps:
                text = f"batch or rows grow as planned, for {longer.grows_over:,} updates"
                first.append(Noticed(step=place.step, text=text))
            if place.saved is not None and is_of_another_optimiser(place.saved, job):
                first.append(Noticed(step=place.step, text=_NEW_OPTIMISER))
            ends_early = job.has_lost_patience(progress.stale_evaluations)
            is_done = ends_early or place.step >= job.total_steps
            if place.end is not None and is_done and not drift:
                announce_finished(world, folder)
                for observer in all_observers:  # all is recorded already
                    for event in (*first, place.end):
                        observer(event)
                return load(folder.path)
            if longer != plan:
                write_text(folder.plan, json_text(encode(longer), indent=1))
            announce_run(world, folder, place.path)
            with explain_memory_errors(run):
                observe_job(
                    job, progress, folder, first, all_observers, active_interrupts, watchers
                )
    return load(folder.path, force=True)  # the training's estimate covers it


def _for_ranks(plan: config.Plan, run: config.Run, ranks: int) -> config.Plan:
    """The plan for another number of ranks; it keeps the parts of a batch if they can share them.

    Raises:
        ConfigError: the ranks cannot share a batch alike.
    """
    if plan.ranks == ranks:
        return plan
    settings, n_data = run.training, run.parallel.count_data_ranks(ranks)
    parts = plan.parts or settings.accumulation
    parts = config.count_parts(settings, n_data) if parts % n_data else parts
    return replace(
        plan,
        ranks=ranks,
        parts=None if parts == settings.accumulation else parts,
        seeding=plan.seeding if ranks == 1 else "by_part",
    )


def _with_length(
    run: config.Run, plan: config.Plan, steps: int | None, place: Place
) -> config.Plan:
    """The plan with another length; a growing batch grows as planned.

    Raises:
        ConfigError: more updates than that are done.
    """
    if steps is None:
        return plan
    if steps < max(1, place.step):
        raise ConfigError(
            f"--steps {steps}: the run has done {place.step:,} updates of {plan.total_steps:,}; "
            "--steps is the length of the whole run: give more than are done"
        )
    if plan.replanned:  # `settle_replans` makes it longer
        return plan
    growth_steps = place.grows_over or plan.grows_over
    grows = run.training.growth is not None and steps != growth_steps
    return replace(plan, total_steps=steps, growth_steps=growth_steps if grows else None)


def _refuse(drift: Sequence[Change], place: Place) -> None:
    """Refuse changes of the run; a changed reward alone has a message of its own.

    Raises:
        RunError: names every key with both values.
    """
    if all(change.key == REWARD for change in drift):
        return
    lengths = (LENGTH, "training.budget")
    longer = any(change.key.startswith(lengths) for change in drift)
    raise RunError(
        f"the run has changed since {place.name}: {'; '.join(map(str, drift))}; it would not end "
        "with the same bits: put the old values back"
        f"{', pass --steps N to train longer,' if longer else ','} or pass --allow-drift to "
        "continue with these, which the run records"
    )


def _first_events(
    folder: RunFolder, place: Place, total_steps: int, drift: Sequence[Change]
) -> list[Event]:
    """The events before the first update; drops the record after the place."""
    notices = (*place.notices, *cut_after(folder.metrics, place.step))
    if place.path is not None:
        folder.shelf.rewind(place.path)
    resumed = Resumed(
        step=place.step,
        total_steps=total_steps,
        checkpoint=place.name if place.path is None else str(place.path),
        folder=str(folder.path),
    )
    first: list[Event] = [*place.unrecorded(folder.shelf), resumed]
    first += [Noticed(step=place.step, text=text) for text in notices]
    if drift:
        first.append(Drifted(step=place.step, changes=tuple(dict.fromkeys(drift))))
    return first
