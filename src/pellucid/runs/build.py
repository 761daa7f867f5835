"""From a config, a tokenizer and prepared text to everything the loop needs.

Comes in: choices and data. Goes out: a `Job`. It does not run it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import torch

from pellucid import config
from pellucid.checkpoints import Checkpoint
from pellucid.config import encode
from pellucid.errors import ConfigError
from pellucid.model import Transformer, assemble
from pellucid.objectives import Objective
from pellucid.objectives import assemble as assemble_objective
from pellucid.optim import assemble_optimiser, assemble_schedule
from pellucid.runs.compiling import compile_blocks, compiler_problem
from pellucid.runs.evaluation import evaluate_tokens, prefix
from pellucid.runs.folder import RunFolder
from pellucid.runs.plan import count_steps, device_name, find_device, find_precision
from pellucid.runs.speak import speak
from pellucid.text import Order, PreparedText, Tokenizer
from pellucid.training import Job, Precision, accumulate
from pellucid.version import __version__


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
            "tokens: leave model.vocab_size out to take the tokenizer's"
        )
    return run


def resolve(
    run: config.Run, model: Transformer, objective: Objective, order: Order
) -> tuple[config.Plan, float, str | None]:
    """The plan of a new run, the seconds a step takes, and why nothing is compiled if asked to be.

    The model is moved to its device and compiled where the plan says so.
    """
    settings = run.training
    device = find_device(settings.device)
    precision = cast('Literal["float32", "bfloat16"]', find_precision(settings.precision, device))
    wants = settings.compile == "on" or (settings.compile == "auto" and device.type == "cuda")
    problem = compiler_problem(device) if wants else None
    model.to(device)
    if wants and problem is None:
        compile_blocks(model)
    seconds = _seconds_per_step(run, model, objective, order, device, precision)
    plan = config.Plan(
        total_steps=count_steps(run, lambda: seconds),
        threads=torch.get_num_threads(),
        device=str(device),
        precision=precision,
        compile=wants and problem is None,
        device_name=device_name(device),
        torch_version=torch.__version__,
    )
    return plan, seconds, problem


def _seconds_per_step(
    run: config.Run,
    model: Transformer,
    objective: Objective,
    order: Order,
    device: torch.device,
    precision: Precision,
) -> float:
    """How long forward and backward of one update take; no weight moves."""
    settings = run.training
    batch = order.batch(0, settings.batch_size)
    # running statistics of norms move with every pass, and a pass for timing is none
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    seconds = 0.0
    for _ in range(3):  # the first one also warms up
        started = time.perf_counter()
        accumulate(
            model,
            objective,
            batch,
            accumulation=settings.accumulation,
            device=device,
            precision=precision,
        )
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - started
        model.zero_grad()
        if seconds > 10:
            break
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(kept[name])
    return seconds


def build_order(run: config.Run, text: PreparedText) -> Order:
    """The order in which the training split is seen.

    Raises:
        TextError: there are fewer tokens than one context.
    """
    return Order(
        text.train.tokens,
        context_length=run.model.context_length,
        seed=run.seed,
        documents=text.train.starts if run.training.documents_apart else None,
    )


def build_model(run: config.Run) -> tuple[Transformer, Objective]:
    """The model with its first weights, and the objective."""
    return assemble(run.model, seed=run.seed), assemble_objective(run.objective)


def build_job(
    run: config.Run,
    plan: config.Plan,
    folder: RunFolder,
    *,
    model: Transformer,
    objective: Objective,
    order: Order,
    tokenizer: Tokenizer,
    text: PreparedText,
) -> Job:
    """Everything the loop needs, joined."""
    held_out, n_bytes = prefix(
        text.held_out.tokens, text.held_out.n_bytes, tokenizer, run.training.evaluate_tokens
    )

    def evaluate() -> tuple[float, float, int]:
        result = evaluate_tokens(
            model,
            held_out,
            n_bytes=n_bytes,
            precision=plan.precision,
            documents=text.held_out.starts if run.training.documents_apart else None,
        )
        return result.loss_nats, result.bits_per_byte, result.tokens

    return Job(
        model=model,
        objective=objective,
        optimiser=assemble_optimiser(run.optimiser, model.named_parameters()),
        schedule=assemble_schedule(run.schedule, total=plan.total_steps),
        settings=run.training,
        plan=plan,
        seed=run.seed,
        batch=order.batch,
        evaluate=evaluate,
        sample=lambda step: speak(model, tokenizer, run.training.sentence, step),
        save=_saver(folder, run.training.keep_checkpoints),
        facts={"pellucid": __version__, "config": encode(run), "plan": encode(plan)},
        aside=folder.aside,
    )


def _saver(folder: RunFolder, keep: int) -> Callable[[int, Checkpoint, bool], Path]:
    return lambda step, checkpoint, best: folder.shelf.save(step, checkpoint, best=best, keep=keep)
