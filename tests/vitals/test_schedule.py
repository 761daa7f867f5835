"""How often is looked, by a clock that only these tests move."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress

import pytest
import torch

from pellucid.vitals import Cost, overhead_budget
from pellucid.vitals.schedule import KINDS, Kind, LookSchedule

#: Seconds of an update, and of a look of each kind: of `nano`, and of something tiny.
NANO: tuple[float, dict[Kind, float]] = (0.4, {"gradients": 0.012, "inside": 0.18})
TINY: tuple[float, dict[Kind, float]] = (0.004, {"gradients": 0.003, "inside": 0.024})


class Clock:
    """Seconds that pass where a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(overhead_budget.time, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def looks(
    clock: Clock,
    updates: int,
    shape: tuple[float, dict[Kind, float]] = NANO,
    *,
    sick: Callable[[int], bool] = lambda step: False,
    share: float | None = 0.02,
) -> dict[Kind, list[int]]:
    """The updates that are looked at; from the promised place on, the cost is within the share."""
    update, costs = shape
    rounds = LookSchedule(share, torch.device("cpu"))
    made: dict[Kind, list[int]] = {kind: [] for kind in KINDS}
    rounds.clock.start()
    clock.now += 15 * update  # the first update warms up
    for step in range(1, updates + 1):
        clock.now += update
        rounds.begin(step)
        for kind in KINDS:
            if rounds.is_due(kind):
                made[kind].append(step)
                with rounds.look(kind):
                    clock.now += costs[kind]
        if sick(step) and rounds.is_due("inside"):
            rounds.doubt(("attention.max_logit",), step)
        if sick(step) and rounds.is_due("gradients"):
            rounds.doubt(("gradient.rms_t",), step)
        is_paid_off = step >= 1000 or (step > 100 and rounds.cost.training_seconds >= 20)
        if share is not None and is_paid_off:
            assert rounds.cost.share <= share
    return made


def test_a_healthy_run_is_seen_at_once_and_costs_its_share_at_most(clock: Clock) -> None:
    made = looks(clock, 600)
    assert made["inside"][0] == made["gradients"][0] == 1
    assert made["gradients"][1:4] == [5, 10, 20]
    assert len(made["gradients"]) > 55
    assert len(made["inside"]) > 10


def test_the_first_looks_are_made_whatever_the_first_batch_has_cost(clock: Clock) -> None:
    rounds = LookSchedule(0.02, torch.device("cpu"))
    rounds.clock.start()
    started_at = rounds.clock.enter()
    clock.now += 0.9  # on a slow machine hooks alone cost more than the credit
    rounds.clock.finish(started_at)
    clock.now += 0.1
    rounds.begin(1)
    assert all(map(rounds.is_due, KINDS))
    for kind in KINDS:
        with rounds.look(kind):
            clock.now += 0.1
    rounds.begin(5)
    assert not any(map(rounds.is_due, KINDS))


def test_what_is_sick_is_seen_again_soon_and_costs_the_share_all_the_same(clock: Clock) -> None:
    made = looks(clock, 600, sick=lambda step: True)
    assert made["inside"][:3] == [1, 4, 7]
    late = looks(clock, 600, sick=lambda step: step > 300)
    first = next(step for step in late["inside"] if step > 300)
    assert any(step - first in range(1, 5) for step in late["inside"])


def test_of_tiny_updates_looks_on_credit_are_paid_off_after_a_thousand(clock: Clock) -> None:
    made = looks(clock, 7000, TINY, sick=lambda step: step < 50)
    assert made["inside"][:2] == [1, 4]
    assert not any(4 < step < 1000 for step in made["inside"])
    assert made["inside"][-1] > 6000


def test_a_fifth_of_the_share_stays_for_what_no_clock_counts(clock: Clock) -> None:
    rounds = LookSchedule(0.05, torch.device("cpu"))
    assert rounds.max_share == 0.05
    clock.now += 100
    assert rounds.fits(4.0, 100.0)
    assert not rounds.fits(4.1, 100.0)


def test_without_a_bound_every_look_is_made(clock: Clock) -> None:
    made = looks(clock, 50, TINY, share=None)
    assert made == {"gradients": [1, 5, 10, 20, 30, 40, 50], "inside": [1, 5, 25, 50]}


def test_a_run_too_short_for_its_first_looks_says_so() -> None:
    assert "on credit" not in Cost(0.02, 1.0, 2).message()
    assert "(more than 2%: first readings, or very short updates)" in Cost(0.021, 1.0, 2).message()
    assert "on credit" not in Cost(0.5, 1.0, 2).message(bound=None)


@pytest.mark.parametrize("is_on", [True, False])
def test_garbage_is_collected_after_a_reading_not_within_it(is_on: bool) -> None:
    rounds = LookSchedule(0.02, torch.device("cpu"))
    (gc.enable if is_on else gc.disable)()
    try:
        with suppress(KeyError), rounds.look("inside"):
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == is_on
    finally:
        gc.enable()
