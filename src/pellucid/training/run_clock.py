"""The time of a run: of its parts so far, of the rest, and the end of a run by minutes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from pellucid.checkpoints import Checkpoint
from pellucid.training.deadline import Deadline
from pellucid.training.forecast import Forecast, Work, count_remaining
from pellucid.training.job import Job, Progress
from pellucid.training.meter import Meter
from pellucid.training.stepper import Stepper
from pellucid.training.timetable import Replan
from pellucid.training.waiting import Paces, WaitMeter


class RunClock:
    """Times updates, evaluations and checkpoints.

    Args:
        job: everything that the run is made of.
        progress: how far the run is.
        stepper: makes the updates.
    """

    def __init__(self, job: Job, progress: Progress, stepper: Stepper) -> None:
        self._job = job
        self._progress = progress
        self._stepper = stepper
        self._forecast = Forecast()
        self._waiting = WaitMeter(job.world)
        self._deadline = Deadline.for_job(job, progress)
        self._timed_rows = job.rows_before(progress.step)
        self._started = time.perf_counter()
        self._before = progress.clock.seconds if progress.clock else 0.0
        #: the numbers of the latest updates, with their speed
        self.meter = Meter(job.settings.log_every, wait=stepper.wait)

    @property
    def seconds(self) -> float:
        """The time since this process began the run or resumed it."""
        return time.perf_counter() - self._started

    def after_update(self, checkpoint: Callable[[], Checkpoint]) -> None:
        """Time the update; a run by minutes may get another length.

        Args:
            checkpoint: makes a checkpoint, to estimate the time of writing one.
        """
        if not self._forecast.has_pace("rows"):
            self.time_rows()  # the first update alone: it is slower than the others
            self.meter.pause()
            self._expect_saving(self._job.save_seconds(checkpoint()))
            self.meter.resume()
        elif not self._stepper.runs_ahead and self._forecast.has_few_paces("rows"):
            self.time_rows()
        if self._deadline is not None:
            step, seconds = self._progress.step, self._before + self.seconds
            if not self._stepper.runs_ahead:
                self._deadline.add_update(step, seconds)
            self._take(self._job.world.led(self._deadline.replan)(step, seconds))

    def time_rows(self) -> None:
        """Record how long the rows took since the last time."""
        rows_done, seconds = self._job.rows_before(self._progress.step), self.meter.lap()
        if rows := rows_done - self._timed_rows:
            self._forecast.add("rows", seconds, rows)
        self._timed_rows = rows_done

    def read_meter(self) -> tuple[list[dict[str, float]], float, Paces]:
        """Each update's gate, gradient norm and parts; tokens per second; the pace of each rank.

        Empties the meter. All ranks read at the same update.
        """
        self.time_rows()
        rows, speed, seconds = self.meter.read()
        if self._deadline is not None:  # the device has done all updates
            self._deadline.add_update(self._progress.step, self._before + self.seconds)
        return rows, speed, self._waiting.read(speed, seconds, self._stepper.memory_in_use())

    @contextmanager
    def pausing(self, work: Work) -> Generator[None]:
        """Time work that keeps the run from learning."""
        self.meter.pause()
        started = time.perf_counter()
        with self._waiting.pausing():
            yield
        seconds = time.perf_counter() - started
        self._forecast.add(work, seconds)
        if self._deadline is not None:
            self._deadline.add_pause(work, seconds)
        self.meter.resume()

    def saved(self, seconds: float) -> None:
        """Record how long a checkpoint took to be written."""
        self._forecast.add("saving", seconds)
        if self._deadline is not None:
            self._deadline.add_work("saving", seconds)

    def _expect_saving(self, seconds: float) -> None:
        self._forecast.expect("saving", seconds)
        if self._deadline is not None:
            self._deadline.expect("saving", seconds)

    def confirm_length(self) -> None:
        """In a run by minutes: record that the length up to here is decided."""
        if self._deadline is not None:
            planned_steps, seconds = self._job.plan.grows_over, self._before + self.seconds
            self._take(self._job.timetable.confirmed(self._progress.step, planned_steps, seconds))

    def as_saved(self) -> dict[str, Any]:
        """The time of a run by minutes, for a checkpoint; empty in other runs."""
        if self._deadline is None:
            return {}
        seconds = self._before + self.seconds
        return {"clock": self._deadline.as_saved(self._progress.step, seconds)}

    def seconds_left(self) -> float:
        """The seconds that the remaining rows, evaluations and checkpoints will take."""
        job, step, total = self._job, self._progress.step, self._job.total_steps
        return self._forecast.left(
            rows=job.rows_before(total) - job.rows_before(step),
            evaluations=count_remaining(step, total, job.settings.evaluate_every),
            checkpoints=count_remaining(step, total, job.settings.checkpoint_every),
        )

    def _take(self, replan: Replan | None) -> None:
        """Let a new length take effect, once it is on the disk."""
        if replan is not None:
            self._job.world.led(self._job.record_replan)(replan)
            self._job.timetable.add(replan)
