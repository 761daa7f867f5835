"""From a config, a plan, a tokenizer and a task to the `Job` that the loop runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from pellucid import config
from pellucid.checkpoints import Checkpoint, load_model_tensors, seconds_to_save
from pellucid.errors import ConfigError
from pellucid.model import (
    Transformer,
    assemble,
    assemble_empty,
    assemble_trained,
    draw_weights,
    has_own_matrices,
    learn_in_bfloat16,
)
from pellucid.optim import assemble_optimiser, assemble_schedule
from pellucid.parallel import World
from pellucid.runs.parts import Inject, inject_parts
from pellucid.runs.plan import compile_model
from pellucid.runs.shard import fill_shares, shard_model
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.initial_weights import fill_body, matching_body
from pellucid.saved_runs.records import sync
from pellucid.saved_runs.replans import append_replan
from pellucid.saved_runs.seal import seal
from pellucid.tasks import Task
from pellucid.tokenizers import Tokenizer
from pellucid.training import Job, Timetable
from pellucid.training.averaging import WeightAverage
from pellucid.training.kernels import attend_by, recompute_by
from pellucid.version import __version__


def with_vocabulary(run: config.Run, tokenizer: Tokenizer) -> config.Run:
    """The config with a vocabulary size: the tokenizer's, unless the config has one.

    Raises:
        ConfigError: the config's is smaller than the tokenizer's.
    """
    rows = run.model.vocab_size
    if rows is None:
        return replace(run, model=replace(run.model, vocab_size=tokenizer.vocab_size))
    if rows < tokenizer.vocab_size:
        raise ConfigError(
            f"model.vocab_size is {rows:,}, but the tokenizer has {tokenizer.vocab_size:,} "
            "tokens: pass --set model.vocab_size=none to take the tokenizer's"
        )
    return run


def with_classes(run: config.Run, classes: tuple[str, ...] | None) -> config.Run:
    """The config with its classes: the classes of the data, unless the config names some."""
    head = run.model.head
    if not isinstance(head, config.ClassificationHead) or head.classes is not None:
        return run
    return replace(run, model=replace(run.model, head=replace(head, classes=classes)))


def build_model(
    run: config.Run,
    plan: config.Plan,
    folder: RunFolder,
    world: World,
    inject: Inject | None = None,
) -> Transformer:
    """The model on the plan's device, with its first weights, computed as plan and config say.

    If the ranks share it, no rank holds it as a whole: at most one tensor is whole at a time. Your
    own modules and reparametrised matrices need all weights: such a model is built first.

    Args:
        run: the config.
        plan: the plan of the run.
        folder: has the weights to start from, if the config names a start; else they are drawn.
        world: the ranks that train together.
        inject: replaces modules of the model.
    """
    is_empty = world.is_sharded and inject is None and has_own_matrices(run.model)
    model = assemble_empty(run.model) if is_empty else assemble(run.model, seed=run.seed)
    if run.start is not None and not is_empty:
        fill_body(model, load_model_tensors(folder.start), torch.device("cpu"))
    assemble_trained(model, run.trained, seed=run.seed)
    _move(model, torch.device(plan.device))
    attend_by(model, plan.attention)
    recompute_by(model, run.training.recompute)
    if run.training.rounding is not None:
        learn_in_bfloat16(model, run.training.rounding)
    if inject is not None:
        inject_parts(model, inject)
    compile_model(model, plan)
    if world.is_sharded:
        shard_model(model, world, plan.precision)
    if is_empty:
        draw_weights(model, run.model, seed=run.seed, set_values=world.set_values)
        if run.start is not None:
            start = load_model_tensors(folder.start, is_verified=world.rank > 0)
            fill_shares(model, matching_body(model, start), world)
    return model


def _move(model: Transformer, device: torch.device) -> None:
    """Move all but the tensors that have no memory."""

    def move(tensor: Tensor) -> Tensor:
        return tensor if tensor.is_meta else tensor.to(device)

    cast("Any", model)._apply(move)


def build_job(
    run: config.Run,
    plan: config.Plan,
    folder: RunFolder,
    model: Transformer,
    task: Task,
    world: World | None = None,
    timetable: Timetable | None = None,
) -> Job:
    """Everything that the loop needs.

    Args:
        run: the config.
        plan: the plan of the run, with its updates counted.
        folder: gets the checkpoints.
        model: the model, on the plan's device.
        task: the objective with its data.
        world: the ranks that train together; by default this process alone.
        timetable: the new lengths of a run by minutes so far.
    """
    decay = run.training.ema_decay
    return Job(
        model=model,
        objective=task.objective,
        optimiser=assemble_optimiser(
            run.optimiser,
            model.named_parameters(),
            penalties=run.penalties,
            orthogonal=plan.orthogonal,
            owners=world,
        ),
        schedule=assemble_schedule(run.schedule, total=plan.total_steps),
        settings=run.training,
        plan=plan,
        seed=run.seed,
        batch=task.batch,
        own_rows=task.own_rows,
        evaluate=lambda: task.evaluate(plan.precision),
        sample=task.sample,
        unit=task.unit,
        rows_per_epoch=task.rows_per_epoch,
        save=_saver(folder, run.training.keep_checkpoints),
        facts={"pellucid": __version__, **seal(run, plan)},
        non_finite_folder=folder.non_finite,
        save_seconds=partial(seconds_to_save, folder.path),
        world=world or World(),
        timetable=timetable or Timetable(),
        record_replan=partial(append_replan, folder.replans),
        row_multiple=_row_multiple(run, plan),
        average=None if decay is None else WeightAverage(model, decay),
    )


def _row_multiple(run: config.Run, plan: config.Plan) -> int | None:
    """What the rows of an update may be a multiple of; None if only whole batches can be made.

    Batches of examples hold examples of about one length, and a compiled model is compiled anew
    for another number of rows.
    """
    if plan.compile or config.Files not in config.data_for(run.objective):
        return None
    return plan.parts or run.training.accumulation


def _saver(folder: RunFolder, keep: int) -> Callable[[int, Checkpoint, bool], Path]:
    def save(step: int, checkpoint: Checkpoint, best: bool) -> Path:
        sync(folder.metrics)
        return folder.shelf.save(step, checkpoint, best=best, keep=keep)

    return save
