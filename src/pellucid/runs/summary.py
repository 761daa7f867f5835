"""The summary of a run that a user reads before the first step: names and lines, in order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import assert_never

from pellucid import config
from pellucid.counting import MemoryEstimate, parameter_count
from pellucid.disk import free_bytes
from pellucid.display.numbers import duration, short, size
from pellucid.optim import group
from pellucid.parallel import own_command
from pellucid.printable import join_counts, plural
from pellucid.saved_runs.folder import RunFolder
from pellucid.tasks import Task
from pellucid.training import Job, mean_rows

Fact = tuple[str, str]


def summarise(
    run: config.Run,
    plan: config.Plan,
    folder: RunFolder,
    task: Task,
    seconds: float | None,
    problem: str | None,
    job: Job,
    memory: MemoryEstimate,
) -> Iterator[Fact]:
    """The facts of a run that is about to start: data, model, batch, machine, cost, folder.

    Args:
        run: the config.
        plan: the plan.
        folder: the run's folder.
        task: the objective with its data.
        seconds: how long the run is expected to take, if that is known.
        problem: the reason why the model is not compiled.
        job: has the model with its parameters.
        memory: the estimate of the memory.
    """
    yield from task.facts
    count = short(parameter_count(run.model))
    width, context = run.model.d_model, run.model.context_length
    layers = join_counts((stack.n_layers for stack in run.model.stacks), "layer")
    yield "model", f"{count} parameters, {layers} of {width}, context {context}"
    yield (
        "updated",
        "; ".join(
            f"{part.label} {short(part.count)}" + ("" if part.decays else ", no decay")
            for part in group(job.model.named_parameters()).every
            if part.parameters
        ),
    )
    yield from _frozen(run, job)
    yield "batch", _batch(run, plan, task)
    yield from _options(run.training)
    compiled = "compiled" if plan.compile else "not compiled"
    reason = "" if problem is None else f" ({problem})"
    machine = f"{plan.device} ({plan.device_name}), {plan.threads} {plural(plan.threads, 'thread')}"
    yield "on", f"{machine}, {plan.precision}, {compiled}{reason}"
    if plan.device == "cpu":
        yield "kernels", _kernels(plan)
    length = "" if seconds is None else f"about {duration(seconds)}, "
    yield "expect", f"{length}{size(memory.n_bytes)} of memory"
    yield from _short_disk(run, folder, memory)
    yield "seed", str(run.seed)
    yield "folder", str(folder.path)
    reward = dict(task.facts).get("reward")
    reward_flag = "" if reward is None else f" --reward {reward}"
    yield "to resume", f"{own_command()} train --resume {folder.path}{reward_flag}"


def _short_disk(run: config.Run, folder: RunFolder, memory: MemoryEstimate) -> Iterator[Fact]:
    """A warning if the disk holds less than the checkpoints that are kept, and the next one."""
    checkpoint = sum(row.n_bytes for row in memory.rows if row.part == "snapshot")
    needed = (run.training.keep_checkpoints + 1) * checkpoint
    free = free_bytes(folder.path)
    if free < needed:
        yield (
            "disk",
            f"{size(free)} left, too little: {run.training.keep_checkpoints + 1} checkpoints of "
            f"about {size(checkpoint)}; make room before the first one",
        )


def _kernels(plan: config.Plan) -> str:
    """The choices that make an update short."""
    attention = {"fused": "torch's fused attention", "products": "attention as matrix products"}
    choices = [
        attention[plan.attention],
        "loss in C" if plan.native else "no C compiler: all in torch",
    ]
    if os.environ.get("THP_MEM_ALLOC_ENABLE") == "1":
        choices.append("freed memory kept, in huge pages (--plain-memory: not)")
    return "; ".join(choices)


def _frozen(run: config.Run, job: Job) -> Iterator[Fact]:
    """The frozen weights, if not all are trained."""
    if run.trained is None:
        return
    parameters = list(job.model.parameters())
    n_frozen = sum(parameter.numel() for parameter in parameters if not parameter.requires_grad)
    share = n_frozen / sum(parameter.numel() for parameter in parameters)
    match run.trained:
        case config.LastLayers(count=count):
            blocks = "block" if count == 1 else f"{count} blocks"
            moves = f"all but the last {blocks}, the final norm and the head"
        case config.LoRA(rank=rank, targets=targets):
            moves = f"adapters of rank {rank} learn next to {', '.join(targets)}"
        case _:
            assert_never(run.trained)
    yield "frozen", f"{short(n_frozen)} parameters ({share:.1%}): {moves}"


def _options(settings: config.Training) -> Iterator[Fact]:
    """Options that are off by default: an average of the weights, an early end, late dropout."""
    if settings.ema_decay is not None:
        average = f"a moving average of the weights (decay {settings.ema_decay:g})"
        yield "averaged", f"{average} is evaluated, sampled, saved and exported"
    if settings.patience is not None:
        times = f"{settings.patience} evaluations without a new best loss"
        yield "ends early", f"after {times}; the best checkpoint stays (checkpoints/best)"
    if settings.dropout_from_epoch:
        yield "dropout", f"begins after {settings.dropout_from_epoch:g} epochs"


def _batch(run: config.Run, plan: config.Plan, task: Task) -> str:
    settings = run.training
    rows, row_tokens = settings.batch_size, task.tokens_per_row
    parts = f" in {settings.accumulation} parts" if settings.accumulation > 1 else ""
    prefix = "" if row_tokens == int(row_tokens) else "about "
    epochs = plan.total_steps * mean_rows(settings) / task.rows_per_epoch
    text = f"{rows} x {prefix}{row_tokens:.0f} = {rows * row_tokens:,.0f} tokens a step{parts}"
    match settings.growth:
        case config.GrowingBatch(first=first, until=share):
            text += f", growing from {first} rows over {share:.0%} of the steps"
        case config.GrowingLength(first=first, until=share):
            text += f", in pieces growing from {first} tokens over {share:.0%} of the steps"
        case None:
            pass
        case _:
            assert_never(settings.growth)
    return f"{text}, {epochs:.1f} epochs"
