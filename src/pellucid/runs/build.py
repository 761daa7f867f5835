"""From a config, a tokenizer and a task to everything the loop needs.

Comes in: choices and data. Goes out: a `Job`. It does not run it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from pellucid import config
from pellucid.batches import Batch
from pellucid.checkpoints import Checkpoint, load_model_tensors, seconds_to_save
from pellucid.errors import ConfigError
from pellucid.model import Transformer, assemble, assemble_trained
from pellucid.objectives import at_rest
from pellucid.optim import assemble_optimiser, assemble_schedule
from pellucid.saved_runs.folder import RunFolder
from pellucid.saved_runs.initial_weights import fill_body
from pellucid.saved_runs.plan import count_steps, device_name, find_precision, has_native
from pellucid.saved_runs.records import sync
from pellucid.saved_runs.seal import seal
from pellucid.tasks import Task
from pellucid.tokenizers import Tokenizer
from pellucid.training import Job, Precision, autocast, split_batch, to_device, update
from pellucid.training.attention_kernels import attend_by, choose_attention, kernel_of
from pellucid.training.compile_blocks import compile_blocks, compiler_problem
from pellucid.version import __version__

#: Updates that are timed behind the first; after a first one of so many seconds, none.
_TIMED, _LONG = 3, 60.0


def with_vocabulary(run: config.Run, tokenizer: Tokenizer) -> config.Run:
    """The config with its vocabulary size known: the tokenizer's, where none was chosen.

    Raises:
        ConfigError: the chosen one is smaller than the tokenizer.
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
    """The config with its classes known: those of the data, where none were chosen."""
    head = run.model.head
    if not isinstance(head, config.ClassificationHead) or head.classes is not None:
        return run
    return replace(run, model=replace(run.model, head=replace(head, classes=classes)))


class Seconds(NamedTuple):
    """What an update takes, and what reading its batch takes where nothing is learnt."""

    update: float
    reading: float


def resolve(
    run: config.Run, model: Transformer, task: Task
) -> tuple[config.Plan, Seconds, str | None]:
    """The plan of a new run, how long things take, and why nothing is compiled if asked to be.

    The model is compiled where the plan says so.
    """
    settings = run.training
    device = model.device
    precision = find_precision(settings.precision, device)
    wants = settings.compile == "on" or (settings.compile == "auto" and device.type == "cuda")
    problem = compiler_problem(device) if wants else None
    compiled = wants and problem is None
    if compiled:
        compile_blocks(model)
    seconds = _timed(run, model, task, precision, compiled)
    plan = config.Plan(
        total_steps=count_steps(
            settings,
            rows_per_epoch=task.rows_per_epoch,
            tokens_per_row=task.tokens_per_row,
            seconds_per_step=lambda: seconds.update,
        ),
        threads=torch.get_num_threads(),
        device=str(device),
        precision=precision,
        compile=compiled,
        device_name=device_name(device),
        torch_version=torch.__version__,
        attention=kernel_of(model),
        native=has_native(device),
        orthogonal=find_precision("auto", device),
    )
    return plan, seconds, problem


def _timed(
    run: config.Run,
    model: Transformer,
    task: Task,
    precision: Precision,
    compiled: bool,
) -> Seconds:
    """How long an update takes, its batch included: through a closed gate, so nothing moves.

    The first of a few fetches memory and loads code; of the others the median counts. A batch is
    made once: of answers that are drawn and judged, making it is the larger part.
    """
    settings, device = run.training, model.device
    # it is made anew for the training: this one's state goes with it
    optimiser = assemble_optimiser(run.optimiser, model.named_parameters(), penalties=run.penalties)
    # running statistics of norms move with every pass, and a pass for timing is none
    saved_buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    update_seconds: list[float] = []
    # a budget of minutes hangs on it, and gives a twentieth; all others only foretell their end
    minutes = settings.budget.count if isinstance(settings.budget, config.Minutes) else 0.0
    patience = min(3.0, 3.0 * minutes)
    waited = 1 if compiled else 0  # passes that wait for the compiler: no patience is spent on them
    began = time.perf_counter()
    batch = task.batch(0, settings.batch_size)
    making = time.perf_counter() - began
    while _again(update_seconds[waited:], patience):
        started = time.perf_counter()
        update(
            model,
            task.objective,
            optimiser,
            batch,
            factor=1.0,
            clip_norm=settings.clip_norm,
            blocked=torch.ones((), device=device),
            accumulation=settings.accumulation,
            device=device,
            precision=precision,
        )
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        update_seconds.append(time.perf_counter() - started)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(saved_buffers[name])
    reading = min(
        _seconds_to_read(model, task, batch, settings.accumulation, precision)
        for _ in range(waited + 1)
    )
    return Seconds(making + median(update_seconds[waited + 1 :] or update_seconds), reading)


def _seconds_to_read(
    model: Transformer, task: Task, batch: Batch, accumulation: int, precision: Precision
) -> float:
    """How long the objective takes over a batch where nothing is learnt."""
    started = time.perf_counter()
    with at_rest(model), autocast(model.device, precision):
        parts = (to_device(part, model.device) for part in split_batch(batch, accumulation))
        losses = [task.objective(model, part).total for part in parts]
    float(losses[-1])  # waits for the device
    return time.perf_counter() - started


def _again(update_seconds: list[float], patience: float) -> bool:
    """Whether another update is to be timed: one behind the first, and more if they are short."""
    cold, warm = update_seconds[:1], update_seconds[1:]
    if not warm:
        return sum(cold) < _LONG
    return sum(warm) < (3.0 if len(warm) < _TIMED else patience)


def build_model(run: config.Run, folder: RunFolder, device: torch.device) -> Transformer:
    """The model with its first weights: drawn, and where it starts from others, those.

    Its attention is computed by the kernel that suits the run's passes.
    """
    model = assemble(run.model, seed=run.seed)
    if run.start is not None:
        fill_body(model, load_model_tensors(folder.start), torch.device("cpu"))
    assemble_trained(model, run.trained, seed=run.seed)
    model = model.to(device)
    settings = run.training
    precision = find_precision(settings.precision, device)
    rows = settings.batch_size // settings.accumulation
    attend_by(model, choose_attention(model, precision, rows=rows))
    return model


def build_job(
    run: config.Run, plan: config.Plan, folder: RunFolder, model: Transformer, task: Task
) -> Job:
    """Everything the loop needs, joined."""
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
        aside=folder.aside,
        save_seconds=partial(seconds_to_save, folder.path),
    )


def _saver(folder: RunFolder, keep: int) -> Callable[[int, Checkpoint, bool], Path]:
    def save(step: int, checkpoint: Checkpoint, best: bool) -> Path:
        sync(folder.metrics)
        return folder.shelf.save(step, checkpoint, best=best, keep=keep)

    return save
