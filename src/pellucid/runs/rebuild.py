"""A job from the files of a run's folder, under its own config or another one."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints import STATE, Checkpoint, describe, read_progress, verify, write_text
from pellucid.config import encode, run_to_toml
from pellucid.errors import ConfigError
from pellucid.json_text import json_text
from pellucid.model import Transformer
from pellucid.parallel import World
from pellucid.rounded_weights import ExactTensors, write_exact
from pellucid.runs.build import build_job, build_model
from pellucid.runs.parts import Inject
from pellucid.runs.prepare import open_data
from pellucid.runs.resume_point import find_place, open_changes
from pellucid.runs.shard import fill_shares, own_moments
from pellucid.saved_runs.folder import RunFolder, existing_folder, preparing
from pellucid.saved_runs.load import check_fit, fill, read_config, read_plan
from pellucid.saved_runs.machine import find_precision
from pellucid.saved_runs.open_checkpoint import bring_back_generators
from pellucid.saved_runs.records import cut_after, recorder
from pellucid.saved_runs.replans import read_clock, read_replans, write_replans
from pellucid.tasks import Reward, TaskInputs, assemble_task
from pellucid.tokenizers import Tokenizer
from pellucid.training import Drifted, Job, Progress, seed_step
from pellucid.training.averaging import TRAINED, split_trained, with_trained


def rebuild(
    folder: RunFolder,
    run: config.Run,
    plan: config.Plan,
    *,
    reward: Reward | None = None,
    target: RunFolder | None = None,
    inject: Inject | None = None,
    world: World | None = None,
) -> Job:
    """The job of a run whose folder is prepared.

    Args:
        folder: the folder with the prepared data.
        run: the config.
        plan: the plan.
        reward: judges answers, if the run learns from a reward.
        target: the folder to write to; by default `folder`.
        inject: replaces modules of the model.
        world: the ranks that train together; by default this process alone.

    Raises:
        PellucidError: the data or the weights of the start are missing or damaged.
    """
    tokenizer = Tokenizer.load(folder.tokenizer)
    data = open_data(folder, run.text.corpus)
    model = build_model(run, plan, folder, world or World(), inject)
    task_inputs = TaskInputs(
        run=run, folder=folder, model=model, tokenizer=tokenizer, data=data, reward=reward
    )
    task = assemble_task(task_inputs)
    return build_job(run, plan, target or folder, model, task, world, read_replans(folder))


def restore(job: Job, checkpoint: Checkpoint) -> Progress:
    """Put the state of a checkpoint into a job, and return how far the run is.

    Raises:
        CheckpointError: it does not fit the job, or is damaged.
    """
    numbers: dict[str, Any] = asdict(read_progress(checkpoint.state, Path(STATE)))
    numbers = {key: math.inf if number is None else number for key, number in numbers.items()}
    progress = Progress(**numbers, clock=read_clock(checkpoint.state, Path(STATE)))
    (_restore_shares if job.world.is_sharded else _restore_whole)(job, checkpoint)
    # generators that are not in the checkpoint are seeded as at every step
    seed_step(job.seed, progress.step)
    bring_back_generators(checkpoint, Path(STATE))
    return progress


def _restore_whole(job: Job, checkpoint: Checkpoint) -> None:
    memory, trained = split_trained(checkpoint.optimiser)
    weights = checkpoint.model if job.average else with_trained(checkpoint.model, trained)
    fill(job.model, _rounded_weights(job.model, weights), job.model.device)
    if job.average is not None:
        job.average.restore(trained)
    if not is_of_another_optimiser(checkpoint, job):
        job.optimiser.load_state_tensors(memory)


def _rounded_weights(model: Transformer, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Weights that fit a model whose matrices are rounded: it takes the exact ones."""
    exact = ExactTensors(model)
    if not exact.rounded:
        return weights
    check_fit(exact, weights)
    for name, parameter in exact.rounded.items():
        write_exact(parameter, weights[name].to(parameter.device))
    return {**weights, **{name: p.detach() for name, p in exact.rounded.items()}}


def _restore_shares(job: Job, checkpoint: Checkpoint) -> None:
    """Read what this rank holds, and nothing else; shares of the weights have no average."""
    check_fit(job.model.state_dict(), describe(checkpoint.model))
    names = [name for name in checkpoint.optimiser if not name.endswith(TRAINED)]
    trained = {
        name.removesuffix(TRAINED): checkpoint.optimiser[name]
        for name in checkpoint.optimiser.keys() - set(names)
    }
    for tensors in (checkpoint.model, trained):
        fill_shares(job.model, tensors, job.world)
    if not is_of_another_optimiser(checkpoint, job):
        moments = own_moments(job.model, checkpoint.optimiser, names, job.world)
        job.optimiser.load_state_tensors(moments)


def is_of_another_optimiser(checkpoint: Checkpoint, job: Job) -> bool:
    """Whether another kind of optimiser saved the checkpoint, whose memory this one cannot use."""
    kind = _optimiser_of(checkpoint.state)
    return kind is not None and kind != _optimiser_of(job.facts)


def _optimiser_of(state: Mapping[str, Any]) -> str | None:
    match state:
        case {"config": {"optimiser": {"kind": str(kind)}}}:
            return kind
        case _:
            return None


def copy_run(source: RunFolder, target: RunFolder, step: int) -> None:
    """Copy a run as it was after `step` updates, ready to resume.

    Args:
        source: the run.
        target: an empty folder.
        step: the step of one of its checkpoints, or 0 for the start.

    Raises:
        CheckpointError: the checkpoint of that step is damaged.
    """
    target.path.mkdir(parents=True, exist_ok=True)
    for file in (source.config, source.plan, source.tokenizer):
        shutil.copy(file, target.path)
    # also the thresholds of the vital signs
    for file in (source.template, source.teacher, source.replans, source.path / "vitals.json"):
        if file.is_file():
            shutil.copy(file, target.path)
    for folder in (source.text, source.start):
        if folder.is_dir():
            shutil.copytree(folder, target.path / folder.name)
    if source.metrics.is_file():
        shutil.copy(source.metrics, target.metrics)
    if step:
        verify(source.shelf.path(step))
        shutil.copytree(source.shelf.path(step), target.shelf.path(step))
        target.shelf.rewind(target.shelf.path(step))
    cut_after(target.metrics, step)


def branch(checkpoint: str | Path, run: config.Run, out: str | Path) -> Path:
    """Make a new run that continues from a checkpoint under another config; then resume it.

    It has the checkpoint's weights, the optimiser's memory, and the place in data and schedule.
    The other run stays unchanged.

    Args:
        checkpoint: a checkpoint, or a run for its latest one.
        run: the new config.
        out: the folder of the new run.

    Raises:
        RunError: there is no run, or `out` exists.
        ConfigError: the new config has other data.
    """
    source, source_checkpoint = existing_folder(Path(checkpoint))
    source_run = read_config(source)
    if run.text != source_run.text:
        raise ConfigError(
            "text: a run that continues under another config keeps its text and its tokenizer: "
            "leave the table as it is, or start a new run"
        )
    if source_checkpoint is None and source.shelf.steps():
        source_checkpoint = source.shelf.latest()
    step = 0 if source_checkpoint is None else int(source_checkpoint.name.removeprefix("step-"))
    with preparing(Path(out)) as (target, work):
        branch_at(source, step, run, work)
    return target.path


def branch_at(source: RunFolder, step: int, run: config.Run, target: RunFolder) -> None:
    """Copy a run as it was after `step` updates, with another config.

    Args:
        source: the run.
        step: the step of one of its checkpoints, or 0 for the start.
        run: the new config.
        target: an empty folder.
    """
    source_run, plan = read_config(source), read_plan(source)
    copy_run(source, target, step)
    write_text(target.config, run_to_toml(run))
    if target.replans.is_file():
        replans = read_replans(target).replans
        write_replans(target.replans, (replan for replan in replans if replan.step <= step))
    if run.training.precision != source_run.training.precision:
        precision = find_precision(run.training.precision, torch.device(plan.device))
        plan = replace(plan, precision=precision)
        write_text(target.plan, json_text(encode(plan), indent=1))
    place = find_place(target, None)
    changes = open_changes(place, run, plan, plan)
    if changes:  # the new config asks for them
        with recorder(target.metrics) as record:
            record(Drifted(step=step, changes=tuple(changes)))
