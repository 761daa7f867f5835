"""What the loop does at its intervals, what it says of the time, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
import torch

from pellucid.batches import Batch
from pellucid.errors import Interrupted, NonFiniteError, PellucidError
from pellucid.parallel import World
from pellucid.training import (
    CheckpointSaved,
    Evaluated,
    Event,
    Finished,
    HeldOut,
    Interrupts,
    Job,
    Logged,
    Progress,
    Sampled,
    StepFinished,
    Stepper,
    StoppedNonFinite,
    TrainedState,
    train,
)
from pellucid.training import Interrupted as InterruptedEvent
from pellucid.training.non_finite import Culprit
from pellucid.training.randomness import seed_step
from pellucid.training.step import StepNumbers
from support.watched import job_of, simulate, small

#: What an update, an evaluation, a checkpoint and its estimate take, in seconds.
UPDATE, EVALUATION, SAVING, ESTIMATING = 1.0, 10.0, 20.0, 7.0
ROWS, TOKENS = 8, 8 * 48
Kind = TypeVar("Kind")


class Clock:
    """Time that passes only where a part of the run says so."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now


class Updates:
    """A stepper that computes nothing; its updates take the given seconds, later ones `UPDATE`."""

    learning_rate = 0.25

    def __init__(self, clock: Clock, *seconds: float, runs_ahead: bool = False) -> None:
        self.clock = clock
        self.seconds = seconds
        self.runs_ahead = runs_ahead

    def update(self, batch: Batch, *, step: int, factor: float) -> StepNumbers:
        self.clock.now += self.seconds[step] if step < len(self.seconds) else UPDATE
        zero = torch.zeros(())
        return StepNumbers(parts={"loss_nats": zero + step}, grad_norm=zero, blocked=zero)

    def state(self) -> TrainedState:
        return TrainedState({}, {})

    def has_finite_weights(self) -> bool:
        return True

    def wait(self) -> None:
        pass

    def memory_in_use(self) -> None:
        return None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    simulate(monkeypatch, clock)
    return clock


def make_job(clock: Clock, losses: list[float] | None = None, **settings: Any) -> Job:
    """Eight updates of a job whose other work only takes time."""
    remaining = iter(losses or [1.0] * 99)

    def take(seconds: float) -> float:
        clock.now += seconds
        return seconds

    def evaluate() -> HeldOut:
        take(EVALUATION)
        return HeldOut(loss_nats=next(remaining), over=1, unit="tokens", measures={})

    def save(step: int, checkpoint: object, best: bool) -> Path:
        take(SAVING)
        return Path(f"step-{step}")

    job = job_of(small(n_layers=1), steps=8)
    intervals = {"log_every": 4, "evaluate_every": 4, "checkpoint_every": 4, **settings}
    return replace(
        job,
        settings=replace(job.settings, **intervals),
        evaluate=evaluate,
        save=save,
        save_seconds=lambda checkpoint: take(ESTIMATING) + 23.0,
    )


def run(
    job: Job,
    updates: Updates,
    *observers: Callable[[Event], None],
    interrupts: Interrupts | None = None,
    progress: Progress | None = None,
) -> list[Event]:
    run_events: list[Event] = []
    listeners = (run_events.append, *observers)
    arguments = (progress or Progress(), listeners, interrupts or Interrupts())
    train(job, *arguments, stepper=cast("Stepper", updates))
    return run_events


def of_kind(seen: list[Event], kind: type[Kind]) -> list[Kind]:
    return [event for event in seen if isinstance(event, kind)]


@pytest.mark.parametrize("runs_ahead", [False, True])
def test_the_time_that_is_left_is_that_of_updates_evaluations_and_checkpoints(
    clock: Clock, runs_ahead: bool
) -> None:
    # the first update is slow, as it always is
    run_events = run(make_job(clock), Updates(clock, 5.0, runs_ahead=runs_ahead))
    first, last = of_kind(run_events, Logged)
    # the run waits for its last checkpoint: 30 s by the estimate, until one was saved
    assert first.seconds_left == pytest.approx(4 * UPDATE + 2 * EVALUATION + 30.0)
    assert last.seconds_left == pytest.approx(EVALUATION + 30.0)
    assert first.tokens_per_second == pytest.approx(4 * TOKENS / (5.0 + 3 * UPDATE))
    assert last.tokens_per_second == pytest.approx(TOKENS / UPDATE)
    (finished,) = of_kind(run_events, Finished)
    assert finished.step == 8
    asides = 3 * EVALUATION + 2 * SAVING + ESTIMATING
    assert finished.seconds == pytest.approx(5.0 + 7 * UPDATE + asides)


def test_without_an_estimate_a_checkpoint_takes_no_time_until_one_was_saved(clock: Clock) -> None:
    job = make_job(clock, checkpoint_every=3)
    job = replace(job, save_seconds=job_of(small(n_layers=1), steps=1).save_seconds)
    _, first, _, last = of_kind(run(job, Updates(clock)), Logged)
    assert first.seconds_left == pytest.approx(4 * UPDATE + 2 * EVALUATION)
    assert last.seconds_left == pytest.approx(EVALUATION + SAVING)


def test_one_disturbed_update_does_not_change_the_forecast(clock: Clock) -> None:
    run_events = run(make_job(clock), Updates(clock, 5.0, UPDATE, 100.0, UPDATE))
    left = of_kind(run_events, Logged)[0].seconds_left
    assert left == pytest.approx(4 * UPDATE + 2 * EVALUATION + 30.0)


def test_work_is_done_at_its_intervals_and_after_the_last_update(clock: Clock) -> None:
    job = make_job(clock, log_every=4, evaluate_every=5, checkpoint_every=6)
    run_events = run(job, Updates(clock))
    logged = of_kind(run_events, Logged)
    assert [event.step for event in of_kind(run_events, StepFinished)] == list(range(1, 9))
    # an evaluation and a checkpoint report first
    assert [(event.step, event.losses) for event in logged] == [
        (4, (0.0, 1.0, 2.0, 3.0)),
        (5, (4.0,)),
        (6, (5.0,)),
        (8, (6.0, 7.0)),
    ]
    assert [event.tokens for event in logged] == [TOKENS * event.step for event in logged]
    assert all(event.learning_rate == 0.25 for event in logged)
    assert [event.step for event in of_kind(run_events, Evaluated)] == [0, 5, 8]
    assert [event.step for event in of_kind(run_events, CheckpointSaved)] == [6, 8]


def test_a_run_that_goes_on_does_not_evaluate_again_before_its_first_update(clock: Clock) -> None:
    run_events = run(make_job(clock), Updates(clock), progress=Progress(step=4, tokens=100))
    assert [event.step for event in of_kind(run_events, Evaluated)] == [8]
    (logged,) = of_kind(run_events, Logged)
    assert logged.tokens == 100 + 4 * TOKENS
    assert logged.tokens_per_second == pytest.approx(TOKENS / UPDATE)


def test_the_best_is_lower_than_all_before_it(clock: Clock) -> None:
    job = make_job(clock, losses=[3.0, 2.0, 2.0, 2.5, 1.0], evaluate_every=2, checkpoint_every=2)
    run_events = run(job, Updates(clock))
    assert [event.best for event in of_kind(run_events, Evaluated)] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert [event.best for event in of_kind(run_events, CheckpointSaved)] == [
        True,
        False,
        False,
        True,
    ]
    # a checkpoint whose state was not evaluated is not the best
    job = make_job(clock, losses=[3.0, 2.0], evaluate_every=8, checkpoint_every=6)
    run_events = run(job, Updates(clock))
    assert [event.best for event in of_kind(run_events, CheckpointSaved)] == [False, True]


def test_evaluations_and_samples_see_the_model_as_it_is_used(clock: Clock) -> None:
    modes: list[tuple[bool, bool]] = []
    job = make_job(clock)

    def sample(step: int) -> Sampled:
        modes.append((job.model.training, torch.is_grad_enabled()))
        return Sampled(step=step, sentence="", next_tokens=(), continuation="")

    job.model.train()
    run_events = run(replace(job, sample=sample), Updates(clock))
    assert modes == [(False, False)] * 3
    assert [event.step for event in of_kind(run_events, Sampled)] == [0, 4, 8]


def test_what_was_drawn_before_a_run_changes_neither_its_evaluation_nor_its_batches(
    clock: Clock,
) -> None:
    draws: list[float] = []
    job = make_job(clock)

    def evaluate() -> HeldOut:
        draws.append(torch.rand(()).item())
        return HeldOut(loss_nats=1.0, over=1, unit="tokens", measures={})

    def batch(place: int, rows: int) -> Any:
        draws.append(torch.rand(()).item())
        return job.batch(place, rows)

    for noise in (1, 2):
        torch.rand(noise)
        run(replace(job, evaluate=evaluate, batch=batch), Updates(clock))
    assert draws[: len(draws) // 2] == draws[len(draws) // 2 :]
    seed_step(job.seed, 0)
    assert draws[:2] == [torch.rand(()).item()] * 2


def test_a_checkpoint_holds_how_far_the_run_is(clock: Clock) -> None:
    states: list[Any] = []
    job = replace(make_job(clock), facts={"plan": "as it is"})

    def save(step: int, checkpoint: Any, best: bool) -> Path:
        states.append(checkpoint.state)
        return Path("step")

    run(replace(job, save=save), Updates(clock))
    assert [state["position"] for state in states] == [4 * ROWS, 8 * ROWS]
    assert [state["progress"]["step"] for state in states] == [4, 8]
    assert states[0]["plan"] == "as it is"


def test_weights_that_are_not_finite_are_set_aside_and_not_saved(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates, run_events = Updates(clock), list[Event]()
    monkeypatch.setattr(updates, "has_finite_weights", lambda: False)
    monkeypatch.setattr(
        updates, "find_culprit", lambda make_batch, step: Culprit("weight", "head"), raising=False
    )
    job = replace(make_job(clock), non_finite_folder=tmp_path)
    with pytest.raises(NonFiniteError, match=r"update 5 met .* weight of head"):
        run(job, updates, run_events.append)
    assert not of_kind(run_events, CheckpointSaved)
    (stopped,) = of_kind(run_events, StoppedNonFinite)
    assert stopped == StoppedNonFinite(
        step=4, what="weight", where="head", aside=str(tmp_path / "step-4")
    )
    report = json.loads((tmp_path / "step-4" / "report.json").read_text("utf-8"))
    assert report == {"step": 4, "what": "weight", "where": "head"}
    assert len(list((tmp_path / "step-4").iterdir())) == 4


def test_a_run_that_is_asked_to_stop_saves_first_if_it_has_learnt(clock: Clock) -> None:
    interrupts = Interrupts()
    run_events: list[Event] = []

    def ask(event: Event) -> None:
        run_events.append(event)
        if isinstance(event, StepFinished) and event.step == 3:
            interrupts.asked, interrupts.signal = True, 15

    with pytest.raises(Interrupted, match="by SIGTERM after step 3; the state is saved"):
        run(make_job(clock), Updates(clock), ask, interrupts=interrupts)
    assert [event.step for event in of_kind(run_events, CheckpointSaved)] == [3]
    assert run_events[-1] == InterruptedEvent(step=3, signal="SIGTERM")
    run_events.clear()
    interrupts.signal = None
    with pytest.raises(Interrupted, match="before the first step"):
        run(make_job(clock), Updates(clock), run_events.append, interrupts=interrupts)
    assert not of_kind(run_events, CheckpointSaved)
    assert run_events[-1] == InterruptedEvent(step=0, signal="")


def test_a_run_that_is_asked_to_save_saves_once_and_goes_on(clock: Clock) -> None:
    interrupts = Interrupts()

    def ask(event: Event) -> None:
        interrupts.save_asked |= isinstance(event, StepFinished) and event.step in (2, 4)

    run_events = run(make_job(clock), Updates(clock), ask, interrupts=interrupts)
    # after update 4 the state was saved already
    assert [event.step for event in of_kind(run_events, CheckpointSaved)] == [2, 4, 8]


def test_a_batch_or_an_evaluation_that_fails_ends_the_run_with_its_state_saved(
    clock: Clock,
) -> None:
    job = make_job(clock, evaluate_every=3)

    def batch(place: int, rows: int) -> Any:
        if place == 2 * ROWS:
            raise PellucidError("the reward failed")
        return job.batch(place, rows)

    def evaluate() -> HeldOut:
        if len(run_events) > 1:
            raise PellucidError("the reward failed")
        return job.evaluate()

    for failing, step in ((replace(job, batch=batch), 2), (replace(job, evaluate=evaluate), 3)):
        run_events: list[Event] = []
        with pytest.raises(PellucidError, match="the reward failed"):
            run(failing, Updates(clock), run_events.append)
        assert [event.step for event in of_kind(run_events, CheckpointSaved)] == [step]


def test_a_rank_gets_its_rows_of_each_batch(clock: Clock) -> None:
    class Second(World):
        size = n_data = 2
        rank = data_rank = 1

    job: Any = make_job(clock)
    full_batch, second = job.batch_of(2), replace(job, world=Second())
    half = slice(ROWS // 2, ROWS)
    assert second.own_batch_of(2).ids.equal(full_batch.ids[half])
    assert second.own_batch_of(2).n_supervised == full_batch.n_supervised
    requests: list[Any] = []

    def own_rows(position: int, n_rows: int, rows: slice) -> tuple[Batch, int]:
        requests.append((position, n_rows, rows))
        return full_batch.part(rows), 7

    assert replace(second, own_rows=own_rows).own_batch_of(2).n_supervised == 7
    assert requests == [(2 * ROWS, ROWS, half)]


def test_an_evaluation_that_fails_on_another_rank_ends_this_one_too(clock: Clock) -> None:
    class OtherRankFails(World):
        size = 2

        def gather(self, value: Any) -> list[Any]:
            return [value, "the disk is gone" if len(run_events) > 1 else ""]

    run_events: list[Event] = []
    job = replace(make_job(clock, evaluate_every=3), world=OtherRankFails())
    with pytest.raises(PellucidError, match="rank 1 of 2: the disk is gone"):
        run(job, Updates(clock), run_events.append)
    assert [event.step for event in of_kind(run_events, CheckpointSaved)] == [3]
    assert [event.step for event in of_kind(run_events, Evaluated)] == [0]
