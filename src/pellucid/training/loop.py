"""The training loop: updates, and at their intervals reports, evaluations, samples, checkpoints.

A `Stepper` makes the updates: the loop knows neither devices nor precision.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

import torch

from pellucid import native
from pellucid.batches import Batch
from pellucid.checkpoints import Checkpoint
from pellucid.errors import NonFiniteError, PellucidError
from pellucid.signals import name_of
from pellucid.training import events
from pellucid.training.announcer import Announcer, early_end, evaluated
from pellucid.training.energy import EnergyMeter
from pellucid.training.forecast import Work
from pellucid.training.interrupts import Interrupts, Requests, first_failure, interruption
from pellucid.training.job import Job, Progress
from pellucid.training.randomness import seed_step
from pellucid.training.run_clock import RunClock
from pellucid.training.saving import Saver, checkpoint_of, save_non_finite
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
        world=job.world,
        average=job.average,
        has_dropout=job.has_dropout,
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
        self.emit = Announcer(observers)
        self.interrupts = interrupts
        self.clock = RunClock(job, progress, stepper)
        self.saver = Saver(job)
        self.saved_step = progress.step
        self.last_evaluated = (-1, math.inf)
        self.batch: Batch | None = None  # of the next update

    def run(self) -> None:
        try:
            self.train()
        except Exception:
            if self.emit.has_failed and self.job.world.size == 1:  # ranks save together
                with suppress(Exception):  # the observer's error says what to do
                    self.save(wait=True)
            raise
        finally:
            self.saver.close()

    def train(self) -> None:
        energy = EnergyMeter(torch.device(self.job.plan.device))
        progress, settings = self.progress, self.job.settings
        if progress.step == 0:
            seed_step(self.job.seed, 0)  # preparing the run may have drawn from the generators
            self.evaluate()
        requests = self.next_requests()
        save_first = requests.save
        while not self.is_done():
            if requests.stop:
                self.stop()
            self.update()
            self.finish_saving(wait=False)
            step, last = progress.step, progress.step == self.job.total_steps
            if step % settings.log_every == 0 or last:
                self.report()
                energy.read()
            if step % settings.evaluate_every == 0 or last:
                self.evaluate()
                last = last or self.is_over()
            saves = step % settings.checkpoint_every == 0 or last or self.is_best_to_keep()
            if saves:
                self.save(wait=last)
            self.emit(events.StepFinished(step=step, saving=saves and not last))
            requests = self.next_requests()
            if requests.save or save_first:
                self.save(wait=True)
            save_first = False
            if requests.sample:
                with self.inspecting():
                    self.sample()
        if self.is_over():
            self.emit(early_end(progress))
        seconds = self.clock.seconds
        self.emit(events.Finished(step=progress.step, seconds=seconds, joules=energy.read()))

    def is_done(self) -> bool:
        """Whether no update is left."""
        return self.progress.step >= self.job.total_steps or self.is_over()

    def is_over(self) -> bool:
        """Whether the run ends early."""
        return self.job.has_lost_patience(self.progress.stale_evaluations)

    def is_best_to_keep(self) -> bool:
        """Whether a run that may end early has just found its best weights."""
        is_new = self.last_evaluated[0] == self.progress.step
        patience, stale = self.job.settings.patience, self.progress.stale_evaluations
        return patience is not None and is_new and stale == 0

    def stop(self) -> NoReturn:
        """Save the state unless it is saved already, and end as the signal asks."""
        step, number = self.progress.step, self.interrupts.signal
        self.save(wait=True)
        self.emit(events.Interrupted(step=step, signal="" if number is None else name_of(number)))
        raise interruption(step, number)

    def next_requests(self) -> Requests:
        """Make the next batch, and hear what any rank was asked for.

        Raises:
            PellucidError: a rank has no batch; all ranks have saved the state.
        """
        job, failure = self.job, None
        if not (self.is_done() or self.interrupts.asked):
            seed_step(job.seed, self.progress.step)  # a reward is the user's code, and may draw
            try:
                self.batch = job.own_batch_of(self.progress.step)
            except PellucidError as error:  # a reward may fail, and a store of data
                failure = error
        requests = self.interrupts.agree_with(job.world, failed=failure is not None)
        if requests.failed:
            self.stop_if_failed(first_failure(job.world, failure))
        return requests

    def stop_if_failed(self, failure: PellucidError | None) -> None:
        """Save the state and end, if any rank has failed."""
        if failure is not None:
            self.save(wait=True)
            raise failure

    def update(self) -> None:
        job, step, batch = self.job, self.progress.step, self.batch
        assert batch is not None
        numbers = self.stepper.update(batch, step=step, factor=job.learning_rate_factor(step))
        self.clock.meter.add(numbers, batch.n_supervised)
        self.progress.step += 1
        self.progress.tokens += batch.n_supervised
        self.clock.after_update(self.checkpoint)

    def report(self) -> None:
        """Read the measurements since the last report; stop if one was not finite."""
        if not self.clock.meter.filled:
            return
        job, progress = self.job, self.progress
        rows, speed, ranks = self.clock.read_meter()
        good = [row for row in rows if not row["blocked"]]
        first_bad = progress.step - len(rows) + len(good)
        if good:
            self.emit(
                events.Logged(
                    step=first_bad,
                    total_steps=job.total_steps,
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
                    seconds_left=self.clock.seconds_left(),
                    memory_bytes=self.stepper.memory_in_use(),
                    unit=job.unit,
                    ranks=ranks,
                )
            )
        if len(good) < len(rows):
            self.stop_non_finite(first_bad)

    def evaluate(self) -> None:
        """Evaluate and sample; a rank that cannot do it ends all, with the state saved."""
        self.report()
        evaluation, failure = None, None
        with self.inspecting():
            try:
                evaluation = self.job.evaluate()
            except PellucidError as error:  # a reward may fail
                failure = error
            failure = first_failure(self.job.world, failure)
            if failure is None and evaluation is not None:
                progress = self.progress
                best = progress.take_loss(evaluation.loss_nats)
                self.emit(evaluated(progress.step, evaluation, best=best))
                self.sample()
                self.last_evaluated = (progress.step, evaluation.loss_nats)
        self.stop_if_failed(failure)

    def sample(self) -> None:
        """No sample if logits are not finite: the next update stops, and says why."""
        with suppress(NonFiniteError):
            sampled = self.job.sample(self.progress.step)
            if sampled is not None:
                self.emit(sampled)

    def save(self, *, wait: bool) -> None:
        """Begin to save a checkpoint; not if this state has one, or holds a value not finite.

        Args:
            wait: return once it is on the disk.
        """
        self.report()
        progress = self.progress
        if self.saved_step != progress.step:
            if not self.stepper.has_finite_weights():
                self.stop_non_finite(progress.step)
            self.finish_saving(wait=True)  # the one before it
            self.clock.confirm_length()
            with self.aside_from_training("checkpoints"):
                step, loss = self.last_evaluated
                best = step == progress.step and loss < progress.best_saved_loss
                if best:
                    progress.best_saved_loss = loss
                self.saver.start(progress.step, self.checkpoint(), best=best)
                self.saved_step = progress.step
        self.finish_saving(wait=wait)

    def finish_saving(self, *, wait: bool) -> None:
        """Tell that the checkpoint which was being written is on the disk."""
        saved = self.saver.collect(wait=wait)
        if saved is not None:
            self.clock.saved(saved.seconds)
            self.emit(events.CheckpointSaved(step=saved.step, path=saved.path, best=saved.best))

    def checkpoint(self) -> Checkpoint:
        return checkpoint_of(self.job, self.stepper, self.progress, self.clock.as_saved())

    def stop_non_finite(self, step: int) -> None:
        """Name the culprit of the update that follows `step` updates, set the state aside, stop."""
        self.finish_saving(wait=True)
        raise save_non_finite(self.job, self.stepper, step, self.emit)

    @contextmanager
    def inspecting(self) -> Generator[None]:
        """Aside from training, and with all weights on every rank."""
        all_weights = self.job.world.with_all_weights(self.job.model)
        with self.aside_from_training("evaluations"), all_weights:
            yield

    @contextmanager
    def aside_from_training(self, work: Work) -> Generator[None]:
        """Stop the clock, and have the model in evaluation mode."""
        with (
            self.clock.pausing(work),
            torch.no_grad(),
            self.job.with_average(),
        ):
            self.job.model.eval()
            yield
