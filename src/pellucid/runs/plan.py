"""The plan of a run: the choices of this machine for a config, and the number of updates.

A plan is made in three steps. `plan_run` gives values alone. `compile_model` compiles the model if
the plan says so. `measure_step` then times the model, and `with_step_count` counts the updates.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from statistics import median
from typing import NamedTuple, assert_never

import torch

from pellucid import config
from pellucid.batches import Batch
from pellucid.counting import choose_kernel
from pellucid.errors import ConfigError
from pellucid.model import Transformer
from pellucid.optim import assemble_optimiser
from pellucid.saved_runs.machine import device_name, find_precision, has_native
from pellucid.tasks import Task
from pellucid.training import Stepper, autocast, mean_rows, split_batch, to_device
from pellucid.training.kernels import compile_blocks, compiler_problem

#: After the first update so many are timed, or as many as take `_ENOUGH` seconds; none if the first
#: took `_LONG` seconds. Long updates vary little.
_TIMED, _ENOUGH, _LONG = 3, 0.5, 60.0
#: The seconds of an update, as long as no update is measured: a run by minutes soon plans again.
_UNMEASURED = 0.1


class StepSeconds(NamedTuple):
    """The seconds of one update with its batch, and of the same batch without learning from it."""

    update: float
    forward: float


def try_compiler(settings: config.Training, device: torch.device) -> str | None:
    """The reason why this machine cannot compile a model.

    None if it can, or if the settings do not ask for it.
    """
    on_gpu = device.type == "cuda"
    return compiler_problem(device) if settings.compiles(on_gpu=on_gpu) else None


def plan_run(
    run: config.Run, device: torch.device, *, compiler: str | None, ranks: int = 1
) -> config.Plan:
    """The plan of a new run on a device; `total_steps` is 1 until `with_step_count` sets it.

    Args:
        run: the config, with the sizes of its vocabulary known.
        device: the device to train on.
        compiler: what `try_compiler` says.
        ranks: how many processes train together.

    Raises:
        ConfigError: the ranks cannot share a batch alike, or the device computes in float32 and the
            weights are in bfloat16.
    """
    settings = run.training
    precision = find_precision(settings.precision, device)
    if settings.rounding is not None and precision == "float32":
        raise ConfigError(
            f'training.weights is "{settings.weights}", and {device} has no instructions for '
            "products in bfloat16, so they would be in float32: pass --set "
            "training.weights=float32, or --set training.precision=bfloat16, which is slow here"
        )
    parts = config.count_parts(settings, run.parallel.count_data_ranks(ranks))
    return config.Plan(
        total_steps=1,
        threads=torch.get_num_threads(),
        device=str(device),
        precision=precision,
        compile=settings.compiles(on_gpu=device.type == "cuda") and compiler is None,
        compile_loss=settings.compile == "all" and compiler is None,
        device_name=device_name(device),
        torch_version=torch.__version__,
        attention=choose_kernel(run.model, precision, sequences=settings.batch_size // parts)
        if device.type == "cpu"
        else "fused",
        native=has_native(device),
        orthogonal="fused bfloat16"
        if find_precision("auto", device) == "bfloat16"
        else "fused float32",
        ranks=ranks,
        parts=None if parts == settings.accumulation else parts,
        seeding="by_part",
        replanned=isinstance(settings.budget, config.Minutes),
    )


def compile_model(model: Transformer, plan: config.Plan) -> None:
    """Compile the model's blocks in place, if the plan says so.

    Torch then warns that products in float32 are not in TensorFloat32, whether there are any or
    not. An update in bfloat16 has none but those of experts' routers, whose choices should not be
    rounded.
    """
    if plan.compile:
        if plan.precision == "bfloat16":
            warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
        compile_blocks(model)


def with_step_count(
    plan: config.Plan, settings: config.Training, task: Task, seconds: StepSeconds | None
) -> config.Plan:
    """The plan with the number of updates that the budget pays for.

    Args:
        plan: the plan of the run.
        settings: the budget and the batch.
        task: the rows of an epoch, and their tokens.
        seconds: how long a step takes, if it was measured; only a budget of minutes depends on
            it.
    """
    return replace(
        plan,
        total_steps=count_steps(
            settings,
            rows_per_epoch=task.rows_per_epoch,
            tokens_per_row=task.tokens_per_row,
            seconds_per_step=_UNMEASURED if seconds is None else seconds.update,
        ),
    )


def count_steps(
    settings: config.Training,
    *,
    rows_per_epoch: int,
    tokens_per_row: float,
    seconds_per_step: float,
) -> int:
    """The number of updates that a budget pays for.

    Args:
        settings: the budget and the batch.
        rows_per_epoch: rows of the training data.
        tokens_per_row: the mean length of a row.
        seconds_per_step: the time of an update of a whole batch; one of fewer rows takes less in
            proportion.
    """
    rows = mean_rows(settings)
    match settings.budget:
        case config.Steps(count=count):
            return count
        case config.Tokens(count=count):
            return math.ceil(count / (rows * tokens_per_row))
        case config.Epochs(count=count):
            return max(1, round(count * rows_per_epoch / rows))
        case config.Minutes(count=count):
            # evaluations, samples and checkpoints take their share; the run plans again
            share = rows / settings.batch_size
            return max(1, int(count * 60 * 0.85 / (seconds_per_step * share)))
        case _:
            assert_never(settings.budget)


def expect_seconds(
    settings: config.Training,
    plan: config.Plan,
    seconds: StepSeconds | None,
    *,
    step_tokens: float,
    held_out_tokens: int,
) -> float | None:
    """How long a run will take, evaluations included; a run by minutes takes these.

    None if no step was measured.

    Checkpoints, samples, and answers that an evaluation writes are left out.

    Args:
        settings: the batch, and how often and on how many tokens the run is evaluated.
        plan: the number of updates.
        seconds: how long a step takes.
        step_tokens: the tokens of a whole batch.
        held_out_tokens: the tokens of the held-out data; an evaluation may read fewer.
    """
    if isinstance(settings.budget, config.Minutes):
        return settings.budget.count * 60
    if seconds is None:
        return None
    updates = plan.total_steps * mean_rows(settings) / settings.batch_size
    evaluations = 1 + math.ceil(plan.total_steps / settings.evaluate_every)
    batches = min(settings.evaluate_tokens, held_out_tokens) / step_tokens
    return seconds.update * updates + seconds.forward * evaluations * batches


def measure_step(run: config.Run, plan: config.Plan, model: Transformer, task: Task) -> StepSeconds:
    """Time a few updates behind a closed gate, so that no weight changes.

    The first update fetches memory and loads code; the median of the others counts. The batch is
    made once: if the model writes answers and a reward judges them, making it takes the longest.

    A run by minutes soon plans again, and has no time to lose: one forward pass is timed, and a
    backward pass is taken to cost twice that.

    Args:
        run: the config.
        plan: the device and the precision.
        model: the model, on its device and compiled if the plan says so.
        task: makes the batch, and has the objective.
    """
    settings = run.training
    batch_start = time.perf_counter()
    batch = task.batch(0, settings.batch_size)
    # one rank alone computes its own share
    n_data = run.parallel.count_data_ranks(plan.ranks)
    batch = batch.part(slice(batch.rows // n_data))
    plan = replace(plan, parts=(plan.parts or settings.accumulation) // n_data, ranks=1)
    batch_seconds = time.perf_counter() - batch_start
    parts = plan.parts or 1
    if isinstance(settings.budget, config.Minutes) and not plan.compile:
        forward = _measure_forward(model, task, batch, parts, plan)
        return StepSeconds(batch_seconds + 3 * forward, forward)
    # the training gets an optimiser of its own: the state of this one is thrown away
    optimiser = assemble_optimiser(run.optimiser, model.named_parameters(), penalties=run.penalties)
    # every forward pass moves the running statistics of norms, and these passes must not
    saved_buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    update_seconds: list[float] = []
    n_compiling = 1 if plan.compile else 0  # the first pass waits for the compiler
    stepper = Stepper(
        model,
        task.objective,
        optimiser,
        settings=settings,
        plan=plan,
        seed=run.seed,
        closed=True,
        has_dropout=lambda step: not settings.dropout_from_epoch,  # as the first updates
    )
    while _continue_timing(update_seconds[n_compiling:]):
        started = time.perf_counter()
        stepper.update(batch, step=0, factor=1.0)
        stepper.wait()
        update_seconds.append(time.perf_counter() - started)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(saved_buffers[name])
    if plan.compile and batch.rows > 2 * parts:
        # with fewer rows the compiler learns that evaluations have any number of rows
        _measure_forward(model, task, batch.part(slice(batch.rows - parts)), parts, plan)
    forward = min(_measure_forward(model, task, batch, parts, plan) for _ in range(n_compiling + 1))
    warm_seconds = update_seconds[n_compiling + 1 :] or update_seconds
    return StepSeconds(batch_seconds + median(warm_seconds), forward)


def _measure_forward(
    model: Transformer, task: Task, batch: Batch, accumulation: int, plan: config.Plan
) -> float:
    started = time.perf_counter()
    model.eval()
    # as evaluations do, or a compiled model is compiled once more when the run has begun
    with torch.no_grad(), autocast(model.device, plan.precision):
        parts = (to_device(part, model.device) for part in split_batch(batch, accumulation))
        losses = [task.objective(model, part).total for part in parts]
    float(losses[-1])  # waits for the device
    return time.perf_counter() - started


def _continue_timing(update_seconds: list[float]) -> bool:
    """Whether to time another update: one after the first, and more if they are short."""
    cold, warm = update_seconds[:1], update_seconds[1:]
    if not warm:
        return sum(cold) < _LONG
    return len(warm) < _TIMED and sum(warm) < _ENOUGH
