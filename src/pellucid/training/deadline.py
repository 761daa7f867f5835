"""The deadline of a run by minutes: how many updates still fit, by the pace of the latest ones."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict, deque
from dataclasses import asdict
from statistics import median
from typing import Any

from pellucid import config
from pellucid.training.forecast import Work, count_remaining
from pellucid.training.job import Job, Progress
from pellucid.training.timetable import Clock, Replan, Timetable

#: The pace is the mean over this share of the whole time, and at least over so many updates.
_WINDOW, _FEWEST = 0.02, 5
#: Fewer updates are enough if they take this share.
_LONG_WINDOW = 0.1
#: If two updates in a row differ from it by more than this factor, only they count.
_NEW_SPEED = 1.5
#: The length changes if the end would miss the deadline by more than these shares of the whole time
#: and of the time left: early on, a pace that varies is no reason.
_MISS, _MISS_OF_REST = 0.004, 0.04
#: A run that is over this share of the time too early gets more updates.
_MISS_AT_END = 0.02
#: If an update takes more than this share of the whole time, the last one may be smaller, so that
#: the end is not half an update early or late.
_LONG = 0.01
#: The median of so many latest evaluations, or checkpoints, counts.
_LATEST = 3


class Deadline:
    """Decides after each update whether the length of the run has to change.

    Args:
        job: the run.
        seconds: its budget.
        progress: how far the run is, and the time that it has taken so far.
    """

    def __init__(self, job: Job, seconds: float, progress: Progress) -> None:
        clock = progress.clock or Clock()
        self._job = job
        self._seconds = seconds
        #: updates so far, their rows, and the seconds of learning from them; newest last
        start = progress.step
        self._rows = deque([(start, job.rows_before(start), clock.seconds)])
        self._is_first = True
        self._paused = 0.0
        #: the seconds of each, and the pace of the updates then
        self._work_times = defaultdict[Work, deque[tuple[float, float | None]]](
            lambda: deque(maxlen=_LATEST)
        )
        #: for the work before it was known
        self._first_pace: float | None = None
        self.expect("evaluations", clock.evaluation)
        self.expect("checkpoints", clock.checkpoint)
        self.expect("saving", clock.saving)

    @classmethod
    def for_job(cls, job: Job, progress: Progress) -> Deadline | None:
        """The deadline of a run by minutes; None if the run's length is fixed."""
        budget = job.settings.budget
        if not job.plan.replanned or not isinstance(budget, config.Minutes):
            return None
        return cls(job, budget.count * 60, progress)

    def as_saved(self, step: int, seconds: float) -> dict[str, Any]:
        """The clock for a checkpoint.

        Args:
            step: how many updates are done.
            seconds: the time that the run has taken.
        """
        clock = Clock(
            seconds=seconds,
            evaluation=self._expected("evaluations", self._pace()),
            checkpoint=self._expected("checkpoints", self._pace()),
            saving=self._expected("saving", self._pace()),
            replans=tuple(r for r in self._job.timetable.replans if r.step <= step),
        )
        return asdict(clock)

    def add_update(self, step: int, seconds: float) -> None:
        """Record that `step` updates are done after so many seconds of the run.

        Args:
            step: how many updates the device has done.
            seconds: the time that the run has taken.
        """
        entries = self._rows
        if entries[-1][0] == step:
            return
        entries.append((step, self._job.rows_before(step), seconds - self._paused))
        if self._is_first and not self._is_long(entries[-1][2] - entries[0][2]):
            entries.popleft()  # the first update is slower than the others
        self._is_first = False
        if self._has_new_speed():
            while len(entries) > 3:
                entries.popleft()
        while (
            len(entries) > 2
            and entries[-1][2] - entries[1][2] >= _WINDOW * self._seconds
            and (
                entries[-1][0] - entries[1][0] >= _FEWEST
                or entries[-1][2] - entries[1][2] >= _LONG_WINDOW * self._seconds
            )
        ):
            entries.popleft()

    def _is_long(self, seconds: float) -> bool:
        """Whether an update of so many seconds counts alone."""
        return seconds > _LONG * self._seconds

    def _has_new_speed(self) -> bool:
        """Whether the last two updates were both much slower, or faster, than those before."""
        if len(self._rows) < 4:
            return False
        *_, before, middle, last = self._rows
        mean = _pace_between(self._rows[0], before)
        paces = [_pace_between(before, middle), _pace_between(middle, last)]
        return min(paces) > _NEW_SPEED * mean or _NEW_SPEED * max(paces) < mean

    def add_pause(self, work: Work, seconds: float) -> None:
        """Record how long an evaluation or a checkpoint has kept the run from learning."""
        self._paused += seconds
        self.add_work(work, seconds)

    def add_work(self, work: Work, seconds: float) -> None:
        """Record how long work took, if it kept the run from learning or not."""
        pace, entries = self._pace(), self._work_times[work]
        if pace is not None and any(pace_then is None for _, pace_then in entries):
            entries.clear()  # the first of a kind is slower
        entries.append((seconds, pace))

    def expect(self, work: Work, seconds: float) -> None:
        """Expect work to take so many seconds, until it is done for the first time."""
        if seconds and not self._work_times[work]:
            self._work_times[work].append((seconds, None))

    def replan(self, step: int, seconds: float) -> Replan | None:
        """The new length after `step` updates and so many seconds; None if it stays.

        Args:
            step: how many updates are done.
            seconds: the time that the run has taken.
        """
        job, remaining = self._job, self._seconds - seconds
        planned_steps, is_over = job.plan.grows_over, step >= job.total_steps
        mean_pace = self._pace()
        pace = self._careful_pace(is_over=is_over)
        self._first_pace = self._first_pace or pace
        if pace is None or mean_pace is None or step <= job.timetable.decided:
            return None
        early = remaining - self._cost(step, job.timetable, pace)
        if is_over:
            is_on_time = early < _MISS_AT_END * self._seconds
        else:
            is_on_time = abs(early) <= max(_MISS * self._seconds, _MISS_OF_REST * remaining)
        if is_on_time:
            return None
        # updates after an end that came too early continue from the progress of the last one
        progress = job.timetable.progress(step - is_over, planned_steps)

        def plan(total: int, last_rows: int | None = None) -> Timetable:
            replan = Replan(
                step=step,
                total_steps=total,
                progress=progress,
                seconds=seconds,
                last_rows=last_rows,
            )
            return Timetable((*job.timetable.replans, replan))

        def cost(timetable: Timetable) -> float:
            return self._cost(step, timetable, pace)

        # a slow update alone does not end the run
        fewest = step + (self._cost(step, plan(step), mean_pace) < remaining)
        candidates = range(fewest, step + 2 + math.ceil(max(0.0, remaining) / pace))
        first_late = bisect_right(candidates, remaining, key=lambda total: cost(plan(total)))
        options = [plan(total) for total in candidates[max(0, first_late - 1) : first_late + 1]]
        late, multiple = options[-1], job.row_multiple
        total = late.total(planned_steps)
        is_long = self._is_long(pace * job.settings.batch_size)
        if multiple is not None and is_long and total > step:
            n_whole = job.whole_rows(total - 1, late)
            fitting = n_whole - (cost(late) - remaining) / pace
            last_rows = max(1, round(fitting / multiple)) * multiple
            if last_rows < n_whole:
                options.append(plan(total, last_rows))
        if is_over:
            options.append(job.timetable)
        nearest = min(options, key=lambda timetable: abs(remaining - cost(timetable)))
        is_same = nearest.end(planned_steps) == job.timetable.end(planned_steps)
        return None if is_same else nearest.replans[-1]

    def _pace(self) -> float | None:
        """The seconds of a row, lately; None until enough updates were timed."""
        first, last = self._rows[0], self._rows[-1]
        is_enough = last[0] - first[0] >= 2 or self._is_long(last[2] - first[2])
        return _pace_between(first, last) if is_enough else None

    def _careful_pace(self, *, is_over: bool) -> float | None:
        """The pace; if updates are long and the latest was slower, its pace.

        If it was an exception, the run comes to its end too early. Then the faster pace counts, and
        the run gets more updates.
        """
        pace = self._pace()
        if pace is None or not self._is_long(pace * self._job.settings.batch_size):
            return pace
        last_pace = _pace_between(self._rows[-2], self._rows[-1])
        return min(pace, last_pace) if is_over else max(pace, last_pace)

    def _cost(self, step: int, timetable: Timetable, pace: float) -> float:
        """The seconds from `step` updates to the end, with the work that is due now."""
        job, settings = self._job, self._job.settings
        total = timetable.total(job.plan.total_steps)
        rows = job.rows_before(total, timetable) - job.rows_before(step, timetable)
        evaluations = count_remaining(step, total, settings.evaluate_every)
        checkpoints = count_remaining(step, total, settings.checkpoint_every)
        return (
            rows * pace
            + evaluations * self._expected("evaluations", pace)
            + checkpoints * self._expected("checkpoints", pace)
            + self._expected("saving", pace)
        )

    def _expected(self, work: Work, pace: float | None) -> float:
        """The seconds that work will take; if updates take longer now, so will the work."""
        entries = self._work_times[work]
        times: list[float] = []
        for seconds, pace_of_work in entries:
            earlier_pace = pace_of_work or self._first_pace
            times.append(seconds * pace / earlier_pace if pace and earlier_pace else seconds)
        return median(times) if entries else 0.0


def _pace_between(first: tuple[int, int, float], last: tuple[int, int, float]) -> float:
    """The seconds of a row between two moments."""
    return (last[2] - first[2]) / (last[1] - first[1])
