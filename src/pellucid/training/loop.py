"""The training loop: updates, and at their intervals reports, evaluations, samples, checkpoints.

A `Stepper` makes the updates: the loop knows neither devices nor precision.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import torch

from pellucid import native
from pellucid.checkpoints import Checkpoint, save_tensors, write_folder
from pellucid.disk import free_name
from pellucid.errors import NonFiniteError, PellucidError
from pellucid.json_text import json_text
from pellucid.signals import name_of
from pellucid.training import events
from pellucid.training.energy import EnergyMeter
from pellucid.training.forecast import Forecast, Work, count_remaining
from pellucid.training.interrupts import Interrupts, interruption
from pellucid.training.job import Job, Progress
from pellucid.training.meter import Meter
from pellucid.training.non_finite import refusal
from pellucid.training.randomness import generator_states, seed_step
from pellucid.training.stepper import Stepper


def train(
    job: Job,
    progress: Progress,
    observers: Sequence[events.Observer],
    interrupts: Interrupts,
    *,
    stepper: Stepper | None = None,
) -> None:
    """Run from `progress` to the plan's last step.

    Args:
        job: everything that the run is made of.
        progress: how far the run is; the loop counts on in it.
        observers: functions that are called with every event.
        interrupts: signals that save or stop the run.
        stepper: makes the updates; by default one on the device of the job's plan.

    Raises:
        Interrupted: a signal came; the step was finished and saved, if there was one.
        NonFiniteError: a value was not finite; the update was skipped and the state set aside.
    """
    stepper = stepper or Stepper(
        job.model,
        job.objective,
        job.optimiser,
        settings=job.settings,
        plan=job.plan,
        seed=job.seed,
    )
    with native.allowed(job.plan.native), interrupts.finishing_steps():
        _Loop(job, progress, stepper, observers, interrupts).run()


class _Loop:
    def __init__(
        self,
        job: Job,
        progress: Progress,
        stepper: Stepper,
        observers: Sequence[events.Observer],
        interrupts: Interrupts,
    ) -> None:
        self.job = job
        self.progress = progress
        self.stepper = stepper
        self.observers = observers
        self.interrupts = interrupts
        self.meter = Meter(job.settings.log_every, wait=stepper.wait)
        self.forecast = Forecast()
        self.timed_rows = job.rows_before(progress.step)
        self.saved_step = progress.step
        self.last_evaluated = (-1, math.inf)

    def run(self) -> None:
        started, energy = time.perf_counter(), EnergyMeter(torch.device(self.job.plan.device))
        progress, settings, total = self.progress, self.job.settings, self.job.plan.total_steps
        if progress.step == 0:
            seed_step(self.job.seed, 0)  # preparing the run may have drawn from the generators
            self.evaluate()
        while progress.step < total:
            if self.interrupts.asked:
                self.stop()
            self.update()
            step, last = progress.step, progress.step == total
            if step % settings.log_every == 0 or last:
                self.report()
                energy.read()
            if step % settings.evaluate_every == 0 or last:
                self.evaluate()
            if step % settings.checkpoint_every == 0 or last:
                self.save()
            self.emit(events.StepFinished(step=step))
            if self.interrupts.save_asked:
                self.interrupts.save_asked = False
                self.save()
        seconds = time.perf_counter() - started
        self.emit(events.Finished(step=progress.step, seconds=seconds, joules=energy.read()))

    def stop(self) -> NoReturn:
        """Save the state unless it is saved already, and end as the signal asks."""
        step, number = self.progress.step, self.interrupts.signal
        if step > 0:
            self.save()
        self.emit(events.Interrupted(step=step, signal="" if number is None else name_of(number)))
        raise interruption(step, number)

    def emit(self, event: events.Event) -> None:
        for observer in self.observers:
            observer(event)

    def update(self) -> None:
        job, step = self.job, self.progress.step
        seed_step(job.seed, step)  # a reward is the user's own code, and may draw
        try:
            batch = job.batch_of(step)
        except PellucidError:  # a reward may fail
            self.save()
            raise
        numbers = self.stepper.update(batch, step=step, factor=job.schedule(step))
        self.meter.add(numbers, batch.n_supervised)
        self.progress.step += 1
        self.progress.tokens += batch.n_supervised
        if not self.forecast.has_pace("rows"):
            self.time_rows()  # the first update alone: it is slower than the others
            self.meter.pause()
            self.forecast.expect("checkpoints", job.save_seconds(self.checkpoint()))
            self.meter.resume()
        elif not self.stepper.runs_ahead and self.forecast.has_few_paces("rows"):
            self.time_rows()

    def time_rows(self) -> None:
        """Tell the forecast how long the rows took since its last entry."""
        rows_done, seconds = self.job.rows_before(self.progress.step), self.meter.lap()
        if rows := rows_done - self.timed_rows:
            self.forecast.add("rows", seconds, rows)
        self.timed_rows = rows_done

    def report(self) -> None:
        """Read the measurements since the last report; stop if one was not finite."""
        if not self.meter.filled:
            return
        job, progress = self.job, self.progress
        self.time_rows()
        rows, speed = self.meter.read()
        good = [row for row in rows if not row["blocked"]]
        first_bad = progress.step - len(rows) + len(good)
        if good:
            self.emit(
                events.Logged(
                    step=first_bad,
                    total_steps=job.plan.total_steps,
                    losses=tuple(row["loss_nats"] for row in good),
                    parts=tuple(
                        (name, tuple(row[name] for row in good))
                        for name in good[0]
                        if name not in ("loss_nats", "grad_norm", "blocked")
                    ),
                    grad_norms=tuple(row["grad_norm"] for row in good),
                    clip_norm=job.settings.clip_norm,
                    learning_rate=self.stepper.learning_rate,
                    tokens=progress.tokens,
                    tokens_per_second=speed,
                    seconds_left=self.seconds_left(),
                    memory_bytes=self.stepper.memory_in_use(),
                    unit=job.unit,
                )
            )
        if len(good) < len(rows):
            self.stop_non_finite(first_bad)

    def evaluate(self) -> None:
        self.report()
        with self.aside_from_training("evaluations"):
            try:
                evaluation = self.job.evaluate()
            except PellucidError:  # a reward may fail
                self.save()
                raise
            best = evaluation.loss_nats < self.progress.best_loss
            if best:
                self.progress.best_loss = evaluation.loss_nats
            self.emit(
                events.Evaluated(
                    step=self.progress.step,
                    loss_nats=evaluation.loss_nats,
                    over=evaluation.over,
                    unit=evaluation.unit,
                    measures=tuple(evaluation.measures.items()),
                    best=best,
                    standard_error=evaluation.standard_error,
                )
            )
            sampled = self.sample()
            if sampled is not None:
                self.emit(sampled)
            self.last_evaluated = (self.progress.step, evaluation.loss_nats)

    def sample(self) -> events.Sampled | None:
        """None if logits are not finite: the next update stops, and says why."""
        try:
            return self.job.sample(self.progress.step)
        except NonFiniteError:
            return None

    def save(self) -> None:
        """Save a checkpoint, unless this state has one already or holds a value not finite."""
        self.report()
        progress = self.progress
        if self.saved_step == progress.step:
            return
        if not self.stepper.has_finite_weights():
            self.stop_non_finite(progress.step)
        with self.aside_from_training("checkpoints"):
            step, loss = self.last_evaluated
            best = step == progress.step and loss < progress.best_saved_loss
            if best:
                progress.best_saved_loss = loss
            path = self.job.save(progress.step, self.checkpoint(), best)
            self.saved_step = progress.step
            self.emit(events.CheckpointSaved(step=progress.step, path=str(path), best=best))

    def checkpoint(self) -> Checkpoint:
        trained = self.stepper.state()
        tensors, generators = generator_states()
        return Checkpoint(
            model=trained.model,
            optimiser=trained.optimiser,
            random=tensors,
            state={
                "progress": self.progress.as_saved(),
                "position": self.job.rows_before(self.progress.step),
                "generators": generators,
                **self.job.facts,
            },
        )

    def stop_non_finite(self, step: int) -> None:
        """Name the culprit of the update that follows `step` updates, set the state aside, stop."""
        job = self.job
        culprit = self.stepper.find_culprit(lambda: job.batch_of(step), step=step)
        target = job.non_finite_folder / f"step-{step}"
        files = ("model.safetensors", "optimiser.safetensors", "batch.safetensors", "report.json")
        replace = target.is_dir() and {entry.name for entry in target.iterdir()} == set(files)
        target = target if replace else free_name(target)
        batch, trained = job.batch_of(step), self.stepper.state()

        def write(folder: Path) -> None:
            save_tensors(folder / "model.safetensors", trained.model)
            save_tensors(folder / "optimiser.safetensors", trained.optimiser)
            save_tensors(folder / "batch.safetensors", batch.named_tensors())
            report = {"step": step, "what": culprit.kind, "where": culprit.place}
            (folder / "report.json").write_text(json_text(report, indent=1), encoding="utf-8")

        write_folder(target, files, write, replace=replace)
        self.emit(
            events.StoppedNonFinite(
                step=step, what=culprit.kind, where=culprit.place, aside=str(target)
            )
        )
        raise NonFiniteError(refusal(step, culprit, target))

    def seconds_left(self) -> float:
        """The seconds that the remaining rows, evaluations and checkpoints will take."""
        job, step, total = self.job, self.progress.step, self.job.plan.total_steps
        rows = job.rows_before(total) - job.rows_before(step)
        evaluations = count_remaining(step, total, job.settings.evaluate_every)
        checkpoints = count_remaining(step, total, job.settings.checkpoint_every)
        return self.forecast.left(rows=rows, evaluations=evaluations, checkpoints=checkpoints)

    @contextmanager
    def aside_from_training(self, work: Work) -> Generator[None]:
        """Stop the clock, and have the model in evaluation mode."""
        self.meter.pause()
        self.job.model.eval()
        started = time.perf_counter()
        with torch.no_grad():
            yield
        self.forecast.add(work, time.perf_counter() - started)
        self.meter.resume()
