"""A run by minutes ends on time whatever its machine does, and follows its own file afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
import torch

from pellucid import config
from pellucid.batches import Batch
from pellucid.errors import ConfigError
from pellucid.training import (
    Clock,
    Event,
    Finished,
    HeldOut,
    Interrupts,
    Job,
    Progress,
    Replan,
    Stepper,
    Timetable,
    TrainedState,
    train,
)
from pellucid.training.deadline import Deadline
from pellucid.training.step import StepNumbers
from support.watched import job_of, simulate, small

Speed = Callable[[float], float]

#: How many times slower the machine is, by the share of the time that is over.
SPEEDS: dict[str, Speed] = {
    "steady": lambda share: 1.0,
    "half as fast from the middle on": lambda share: 1.0 if share < 0.5 else 2.0,
    "twice as fast from the middle on": lambda share: 1.0 if share < 0.5 else 0.5,
    "three times slower near the end": lambda share: 1.0 if share < 0.9 else 3.0,
    "in waves": lambda share: 1.5 + 0.5 * math.sin(40 * share),
    "loaded for a while": lambda share: 2.5 if 0.3 < share < 0.6 else 1.0,
    "slower and slower": lambda share: 1.0 + 2.0 * share,
    "slow at its start": lambda share: 4.0 if share < 0.02 else 1.0,
}


class Machine:
    """A clock, and a stepper whose updates take time by the machine's speed."""

    learning_rate, runs_ahead = 0.25, False

    def __init__(
        self, speed: Speed, budget: float, update: float, *, exceptions: bool = True
    ) -> None:
        self.exceptions, self.rows = exceptions, 8
        self.now, self.speed, self.budget, self.seconds = 0.0, speed, budget, update
        self.factors: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        piece = self.budget / 400  # within it, the speed is the same
        while seconds > 0:
            slower = self.speed(self.now / self.budget)
            work_done = min(seconds, piece / slower)
            self.now, seconds = self.now + work_done * slower, seconds - work_done

    def update(self, batch: Batch, *, step: int, factor: float) -> StepNumbers:
        self.factors.append(factor)
        # every tenth update something else takes as long again
        slower = 2 if self.exceptions and step % 10 == 3 else 1
        self.work(self.seconds * slower * self.rows / 8)
        zero = torch.zeros(())
        return StepNumbers(parts={"loss_nats": zero}, grad_norm=zero, blocked=zero)

    def state(self) -> TrainedState:
        return TrainedState({}, {})

    def has_finite_weights(self) -> bool:
        return True

    def wait(self) -> None:
        pass

    def memory_in_use(self) -> None:
        return None


def job_on(
    machine: Machine, planned: int, recorded: list[Replan], *, share: float = 1 / 200
) -> Job:
    """A run by minutes, planned for so many updates; `share` of it is an evaluation's."""
    job = job_of(small(n_layers=1), steps=planned)
    side_work = machine.budget * share

    def evaluate() -> HeldOut:
        machine.work(side_work)
        return HeldOut(loss_nats=1.0, over=1, unit="tokens", measures={})

    def save(step: int, checkpoint: object, best: bool) -> Path:
        machine.work(side_work)
        return Path(f"step-{step}")

    interval = planned // 10
    full_batch = job.batch_of(0)

    def batch(place: int, rows: int) -> Batch:
        machine.rows = rows
        return full_batch.part(slice(rows))

    return replace(
        job,
        settings=replace(
            job.settings,
            budget=config.Minutes(count=machine.budget / 60),
            log_every=10,
            evaluate_every=interval,
            checkpoint_every=interval,
        ),
        plan=replace(job.plan, replanned=True),
        batch=batch,
        row_multiple=1,
        evaluate=evaluate,
        save=save,
        timetable=Timetable(recorded),
        record_replan=recorded.append,
    )


def save_at_once(step: int, checkpoint: object, best: bool) -> Path:
    return Path(f"step-{step}")


def run_on(
    machine: Machine, job: Job, monkeypatch: pytest.MonkeyPatch, progress: Progress | None = None
) -> Finished:
    simulate(monkeypatch, machine)
    run_events: list[Event] = []
    train(
        job,
        progress or Progress(),
        (run_events.append,),
        Interrupts(),
        stepper=cast("Stepper", machine),
    )
    finished = run_events[-1]
    assert isinstance(finished, Finished)
    return finished


@pytest.mark.parametrize("speed", SPEEDS.values(), ids=SPEEDS)
@pytest.mark.parametrize(("minutes", "updates", "guess"), [(1, 150, 2.0), (60, 250, 0.5)])
def test_it_ends_within_three_percent_of_its_time(
    monkeypatch: pytest.MonkeyPatch, speed: Speed, minutes: int, updates: int, guess: float
) -> None:
    budget = 60.0 * minutes
    machine, recorded = Machine(speed, budget, budget / updates), list[Replan]()
    job = job_on(machine, int(updates * guess), recorded)
    finished = run_on(machine, job, monkeypatch)
    assert finished.seconds == pytest.approx(budget, rel=0.03)
    # the schedule comes to its end with the run, and no earlier
    assert 0.0 < machine.factors[-1] < 0.1
    assert finished.step == job.total_steps == recorded[-1].step


@pytest.mark.parametrize(("budget", "update", "aside"), [(60, 5, 8), (60, 8, 1), (300, 12, 8)])
@pytest.mark.parametrize(
    "speed",
    [
        "steady",
        "half as fast from the middle on",
        "twice as fast from the middle on",
        "loaded for a while",
        "slow at its start",
    ],
)
def test_it_ends_on_time_although_an_update_takes_long(
    monkeypatch: pytest.MonkeyPatch, speed: str, budget: int, update: int, aside: int
) -> None:
    machine, recorded = Machine(SPEEDS[speed], budget, update, exceptions=False), list[Replan]()
    job = job_on(machine, 20, recorded, share=aside / budget)
    settings = replace(job.settings, evaluate_every=1000, checkpoint_every=1000)
    job = replace(job, settings=settings, save=save_at_once)
    finished = run_on(machine, job, monkeypatch)
    # of one minute, what comes after its middle is an update and an evaluation on the slow machine
    is_late_news = (budget, update) == (60, 5) and speed == "half as fast from the middle on"
    assert finished.seconds == pytest.approx(budget, rel=0.05 if is_late_news else 0.03)
    replay = replace(job, timetable=Timetable(recorded))
    assert replay.rows_before(finished.step) == job.rows_before(finished.step)


def test_the_last_update_learns_from_the_rows_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, recorded = Machine(SPEEDS["steady"], 60, 8, exceptions=False), list[Replan]()
    job = job_on(machine, 20, recorded)
    finished = run_on(machine, job, monkeypatch)
    last_rows = recorded[-1].last_rows
    assert last_rows is not None
    assert 0 < last_rows < 8
    assert machine.rows == last_rows == job.batch_of(finished.step - 1).rows
    assert job.rows_before(finished.step) == 8 * (finished.step - 1) + last_rows
    longer = replace(
        job,
        timetable=Timetable(
            [
                *recorded,
                Replan(step=finished.step, total_steps=99, progress=0.5, seconds=60.0),
            ]
        ),
    )
    assert longer.batch_of(finished.step - 1).rows == last_rows  # as it was trained
    assert longer.batch_of(finished.step).rows == 8


def test_a_run_that_came_to_its_end_too_early_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(lambda share: 3.0 if 0.55 < share < 0.75 else 1.0, 60, 4, exceptions=False)
    recorded: list[Replan] = []
    job = job_on(machine, 20, recorded, share=1 / 60)
    settings = replace(job.settings, evaluate_every=1000, checkpoint_every=1000)
    job = replace(job, settings=settings)
    finished = run_on(machine, job, monkeypatch)
    assert finished.seconds == pytest.approx(60, rel=0.03)
    assert any(a.total_steps == b.step < b.total_steps for a, b in pairwise(recorded))


def test_the_only_evaluation_so_far_is_expected_to_take_longer_on_a_slower_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(SPEEDS["half as fast from the middle on"], 60.0, 60 / 150)
    job = job_on(machine, 150, [], share=1 / 20)
    settings = replace(job.settings, evaluate_every=1000, checkpoint_every=1000)
    job = replace(job, settings=settings, save=save_at_once)
    assert run_on(machine, job, monkeypatch).seconds == pytest.approx(60.0, rel=0.03)


def test_the_schedule_follows_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[tuple[float, float]] = []
    machine = Machine(SPEEDS["half as fast from the middle on"], 600.0, 600 / 200)
    job = job_on(machine, 200, [])

    def observe(step: float) -> float:
        shares.append((machine.now / 600, step / 200))
        return 1.0

    run_on(machine, replace(job, schedule=observe), monkeypatch)
    assert max(abs(time - share_done) for time, share_done in shares) < 0.1


@pytest.mark.parametrize("growth", [None, config.GrowingBatch(first=2, until=0.5)])
def test_a_replay_has_the_same_updates_on_any_machine(
    monkeypatch: pytest.MonkeyPatch, growth: config.Growth | None
) -> None:
    def train_on(speed: str, recorded: list[Replan]) -> tuple[list[float], list[int]]:
        machine = Machine(SPEEDS[speed], 60.0, 60 / 100)
        job = job_on(machine, 80, recorded)
        job = replace(job, settings=replace(job.settings, growth=growth))
        finished = run_on(machine, job, monkeypatch)
        return machine.factors, [job.rows_before(step) for step in range(finished.step + 1)]

    recorded: list[Replan] = []
    first = train_on("loaded for a while", recorded)
    length = len(recorded)
    assert train_on("in waves", recorded) == first
    assert len(recorded) == length  # nothing was planned anew
    rows = first[1]
    sizes = [after - before for before, after in pairwise(rows)]
    assert sizes[:-1] == sorted(sizes[:-1])  # the last may be what still fits
    assert set(sizes[:-1]) == ({8} if growth is None else {2, 4, 8})


def test_a_first_update_that_is_slow_does_not_count_in_a_resumed_run_either() -> None:
    job = job_on(Machine(SPEEDS["steady"], 60, 1), 60, [])
    progress = Progress(step=30, clock=Clock(seconds=30.0))
    deadline = Deadline(job, 60, progress)
    for step, seconds in ((31, 30.55), (32, 30.95), (33, 31.35)):
        deadline.add_update(step, seconds)
    assert deadline._pace() == pytest.approx(0.4 / 8)


def test_without_a_new_length_a_step_is_a_step() -> None:
    timetable = Timetable()
    assert [timetable.moment(step, 7) for step in range(8)] == list(range(8))
    unchanged = Timetable([Replan(step=3, total_steps=7, progress=3 / 7, seconds=1.0)])
    assert [unchanged.moment(step, 7) for step in range(8)] == pytest.approx(list(range(8)))


def test_after_a_new_length_the_rest_of_the_schedule_is_spread_over_the_updates_left() -> None:
    timetable = Timetable([Replan(step=4, total_steps=10, progress=0.4, seconds=1.0)])
    assert [timetable.moment(step, 10) for step in (0, 3, 4)] == [0, 3, 4]
    longer = Timetable(
        [*timetable.replans, Replan(step=6, total_steps=12, progress=0.6, seconds=2)]
    )
    assert longer.moment(9, 10) == pytest.approx(8.0)
    assert longer.total(10) == 12


def test_what_has_grown_does_not_shrink_where_a_new_length_begins() -> None:
    timetable = Timetable((Replan(step=5, total_steps=20, progress=0.1, seconds=1.0),))
    assert timetable.moment(5, 10) == 1
    assert [timetable.furthest(step, 10) for step in (3, 4, 5, 6)] == [3, 4, 4, 4]


def test_an_impossible_length_is_refused() -> None:
    with pytest.raises(ConfigError, match="step <= total_steps"):
        Replan(step=5, total_steps=4, progress=0.5, seconds=0.0)
    with pytest.raises(ConfigError, match="step <= total_steps"):
        Replan(step=5, total_steps=2**53, progress=0.5, seconds=0.0)
    replan = Replan(step=5, total_steps=9, progress=0.5, seconds=0.0)
    with pytest.raises(ConfigError, match="step 4 comes after step 5"):
        Timetable([replan, replace(replan, step=4)])


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_a_clock_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigError, match="evaluation: expected seconds, at least 0"):
        Clock(evaluation=seconds)
