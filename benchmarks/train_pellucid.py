"""Training updates of pellucid, by its own update, watched as `pellucid train` watches, and not.

An update is what the loop of `pellucid.training` does in one: seeds, the update itself, the meter,
every ten updates a report to those who watch. Precision and kernels are what pellucid chooses for
the machine.

Comes in: a shape, a folder with weights and ids. Goes out: a contestant for `benchmarks.worker`. It
does not know the others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.shapes import (
    ADAMW,
    CHECKED,
    CLIP_NORM,
    Feed,
    Shape,
)
from benchmarks.worker import memory
from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.checkpoints.huggingface import open_published
from pellucid.counting import choose_kernel
from pellucid.model import Transformer, assemble
from pellucid.objectives import NextToken
from pellucid.optim import assemble_optimiser
from pellucid.presets import find
from pellucid.saved_runs.machine import device_name, find_precision, has_native
from pellucid.training import Job, events
from pellucid.training.kernels import attend_by, compile_blocks
from pellucid.training.meter import Meter
from pellucid.training.step import autocast, to_device
from pellucid.training.stepper import Stepper
from pellucid.vitals import watcher


class Updates:
    """So many updates of a job when called; `facts` describes it."""

    def __init__(self, job: Job, watching: dict[str, Any] | None) -> None:
        self.job, self.step = job, 0
        self.stepper = Stepper(
            job.model,
            job.objective,
            job.optimiser,
            settings=job.settings,
            plan=job.plan,
            seed=job.seed,
        )
        self.meter = Meter(job.settings.log_every, wait=self.stepper.wait)
        self.events: list[events.Event] = []
        self.facts = facts_of(job)
        if job.plan.compile:
            compile_blocks(job.model)
        self.watching, self.open = watching, ExitStack()
        self.observe: Callable[[events.Event], None] | None = None

    def __call__(self, steps: int) -> dict[str, Any]:
        if self.observe is None:
            self.observe = self.begin()
        loss = torch.zeros(())
        for _ in range(steps):
            # called before the next update, not after the last: between the two the clock of the
            # watcher is stopped, and stays so while others have their turn
            self.observe(events.StepFinished(step=self.step))
            loss = self.update()
        return {"loss": float(loss), "watching": self.cost()}

    def begin(self) -> Callable[[events.Event], None]:
        """Let those in who watch; the first look is made in the first update."""
        if self.watching is None:
            return self.events.append
        return self.open.enter_context(watcher(**self.watching)(self.job, self.events.append))

    def update(self) -> torch.Tensor:
        job = self.job
        batch = job.batch_of(self.step)
        numbers = self.stepper.update(batch, step=self.step, factor=1.0)
        self.meter.add(numbers, batch.n_supervised)
        self.step += 1
        if self.step % job.settings.log_every == 0:
            self.report()
        return numbers.parts["loss_nats"]

    def report(self) -> None:
        """What the loop tells every few updates."""
        assert self.observe is not None
        rows, speed, _ = self.meter.read()
        self.observe(
            events.Logged(
                step=self.step,
                total_steps=self.job.plan.total_steps,
                losses=tuple(row["loss_nats"] for row in rows),
                parts=(),
                grad_norms=tuple(row["grad_norm"] for row in rows),
                clip_norm=self.job.settings.clip_norm,
                learning_rate=self.job.optimiser.learning_rate,
                tokens=0,
                tokens_per_second=speed,
                seconds_left=0.0,
                memory_bytes=None,
            )
        )

    def cost(self) -> dict[str, float] | None:
        """What watching says itself that it took so far, where it has said so."""
        costs = [e.cost for e in self.events if isinstance(e, events.Vitals) and e.cost]
        if not costs:
            return None
        seconds, training, n_readings = costs[-1]
        return {"seconds": seconds, "training_seconds": training, "looks": n_readings}


def pellucid(
    *,
    shape: dict[str, Any],
    folder: str,
    device: str,
    compiled: bool,
    watching: dict[str, Any] | None,
    shared: bool = True,
    compiled_loss: bool = False,
) -> Updates:
    """On the shared ids, with the shared weights or with weights of its own draw."""
    before, model_shape = memory("VmRSS"), Shape(**shape)
    feed = Feed(model_shape, Path(folder) / "ids.npy", "cpu")

    def batch(position: int, size: int) -> TokenBatch:
        ids, targets = feed.batch(position // size)
        return TokenBatch(ids=ids, targets=targets, n_supervised=model_shape.tokens)

    model = filled(folder) if shared else assemble(model_shape.model(), seed=1)
    job = job_of(
        model_shape, model, batch, device=device, compiled=compiled, compiled_loss=compiled_loss
    )
    updates = Updates(job, watching)
    updates.facts["bytes_before"] = before
    return updates


def job_of(
    shape: Shape,
    model: Transformer,
    batch: Callable[[int, int], TokenBatch],
    *,
    device: str,
    compiled: bool,
    compiled_loss: bool = False,
) -> Job:
    """The job of the loop, without evaluations, samples and checkpoints."""
    place = torch.device(device)
    model = model.to(place).train()
    precision = find_precision("auto", place)
    kernel = choose_kernel(shape.model(), precision, sequences=shape.batch)
    attention = kernel if place.type == "cpu" else "fused"
    attend_by(model, attention)
    return Job(
        model=model,
        objective=NextToken(),
        optimiser=assemble_optimiser(ADAMW, model.named_parameters()),
        schedule=lambda step: 1.0,
        settings=replace(
            find("gpt2").training,
            batch_size=shape.batch,
            accumulation=1,
            clip_norm=CLIP_NORM,
            log_every=10,
        ),
        plan=config.Plan(
            total_steps=10**9,
            threads=torch.get_num_threads(),
            device=device,
            precision=precision,
            compile=compiled,
            compile_loss=compiled_loss,
            device_name=device_name(place),
            torch_version=torch.__version__,
            attention=attention,
            native=has_native(place),
        ),
        seed=1,
        batch=batch,
        evaluate=refuse_call,
        sample=refuse_call,
        save=refuse_call,
        facts={},
        non_finite_folder=Path(),
    )


def refuse_call(*_: object) -> Any:
    """Nothing is evaluated, sampled or saved in an update."""
    raise AssertionError


def filled(folder: str) -> Transformer:
    """The shared weights in pellucid's own model, read as `pellucid import` reads them."""
    published = open_published(Path(folder))
    with torch.device("meta"):
        model = assemble(published.model, seed=1)
    published.fill(model)
    return model


def facts_of(job: Job) -> dict[str, Any]:
    """Parameters, and the first rows' loss in float32 and in the precision that is used."""
    device, loss = torch.device(job.plan.device), {}
    batch = job.batch(0, job.settings.batch_size).part(slice(0, CHECKED))
    batch = replace(batch, n_supervised=batch.targets.numel())
    on_device = to_device(batch, device)
    with torch.no_grad():
        for precision in ("float32", job.plan.precision):
            with autocast(device, precision):
                loss[precision] = float(job.objective(job.model, on_device).total)
    count = sum(parameter.numel() for parameter in job.model.parameters())
    return {
        "parameters": count,
        "precision": job.plan.precision,
        "same_weights": True,
        "float32_loss": loss["float32"],
        "first_loss": loss[job.plan.precision],
    }
