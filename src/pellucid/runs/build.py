"""From a config, a plan, a tokenizer and a task to the `Job` that the loop runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from pellucid import config
from pellucid.checkpoints import Checkpoint, load_model_tensors, seconds_to_save
from pellucid.errors import ConfigError
from pellucid.model import Transformer, assemble, assemble_trained
from pellucid.optim import assemble_optimiser, assemble_schedule
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.initial_weights import fill_body
from pellucid.saved_runs.records import sync
from pellucid.saved_runs.seal import seal
from pellucid.tasks import Task
from pellucid.tokenizers import Tokenizer
from pellucid.training import Job
from pellucid.training.kernels import attend_by
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


def build_model(run: config.Run, plan: config.Plan, folder: RunFolder) -> Transformer:
    """The model on the plan's device, with its first weights, and with the plan's attention kernel.

    Args:
        run: the config.
        plan: the plan of the run.
        folder: has the weights to start from, if the config names a start; else they are drawn.
    """
    model = assemble(run.model, seed=run.seed)
    if run.start is not None:
        fill_body(model, load_model_tensors(folder.start), torch.device("cpu"))
    assemble_trained(model, run.trained, seed=run.seed)
    model = model.to(torch.device(plan.device))
    attend_by(model, plan.attention)
    return model


def build_job(
    run: config.Run, plan: config.Plan, folder: RunFolder, model: Transformer, task: Task
) -> Job:
    """Everything that the loop needs.

    Args:
        run: the config.
        plan: the plan of the run, with its updates counted.
        folder: gets the checkpoints.
        model: the model, on the plan's device.
        task: the objective with its data.
    """
    return Job(
        model=model,
        objective=task.objective,
        optimiser=assemble_optimiser(
            run.optimiser,
            model.named_parameters(),
            penalties=run.penalties,
            orthogonal=plan.orthogonal,
        ),
        schedule=assemble_schedule(run.schedule, total=plan.total_steps),
        settings=run.training,
        plan=plan,
        seed=run.seed,
        batch=task.batch,
        evaluate=lambda: task.evaluate(plan.precision),
        sample=task.sample,
        unit=task.unit,
        save=_saver(folder, run.training.keep_checkpoints),
        facts={"pellucid": __version__, **seal(run, plan)},
        non_finite_folder=folder.non_finite,
        save_seconds=partial(seconds_to_save, folder.path),
    )


def _saver(folder: RunFolder, keep: int) -> Callable[[int, Checkpoint, bool], Path]:
    def save(step: int, checkpoint: Checkpoint, best: bool) -> Path:
        sync(folder.metrics)
        return folder.shelf.save(step, checkpoint, best=best, keep=keep)

    return save
