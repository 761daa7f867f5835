"""Turns, medians and ratios of contestants, and the process that a contestant works in."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import pytest


def workers() -> Any:
    return importlib.import_module("benchmarks.workers")


def turn(wall: float, *, steps: int = 1, processor: float = 1.0) -> Any:
    return workers().Turn(steps, wall, processor, 0, {})


def test_seconds_are_of_a_step_and_the_median_over_turns() -> None:
    turns = [turn(4.0, steps=2), turn(9.0, steps=2), turn(2.0, steps=2, processor=8.0)]
    assert workers().seconds(turns) == 2.0
    assert workers().seconds(turns, "processor") == 0.5


def test_a_ratio_is_taken_round_by_round_so_that_a_slow_round_changes_nothing() -> None:
    slow_machine = (1.0, 10.0, 1.0)
    fast, slow = [turn(s) for s in slow_machine], [turn(2 * s) for s in slow_machine]
    assert workers().ratio(slow, fast) == 2.0
    # one round in which only the other was disturbed moves the mean, not the median
    slow[0] = turn(50.0)
    assert workers().ratio(slow, fast) == 2.0
    assert workers().ratios(slow, fast)[0] == 50.0


def test_a_ratio_of_unequally_many_turns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"zip.. argument 2 is longer"):
        workers().ratio([turn(1.0)], [turn(1.0), turn(1.0)])


def test_who_goes_first_alternates() -> None:
    names: list[str] = []

    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name

        def work(self, steps: int) -> Any:
            names.append(self.name)
            return turn(1.0, steps=steps)

    turns = workers().in_turns([Fake("a"), Fake("b"), Fake("c")], rounds=3, steps=7)
    assert "".join(names) == "abccbaabc"
    assert [turn_of_b.steps for turn_of_b in turns["b"]] == [7, 7, 7]


def test_a_turn_is_as_long_as_wanted_but_at_least_one_step() -> None:
    assert workers().steps_for([0.1, 0.2, 5.0], 1.0) == 5
    assert workers().steps_for([3.0], 1.0) == 1


def test_a_contestant_gets_no_setting_that_it_was_not_given() -> None:
    variables = {"PATH": "p", "MALLOC_TRIM_THRESHOLD_": "1", "OMP_NUM_THREADS": "9", "KMP_X": "1"}
    assert workers().environment(variables, 2) == {"PATH": "p", "OMP_NUM_THREADS": "2"}


def contestant(what: str, **setup: Any) -> Any:
    return workers().Contestant(what, f"tests.support.contestant:{what}", setup)


def test_a_contestant_works_in_its_own_process_and_says_what_it_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    with workers().started([contestant("Counting", start=40)], threads=3) as (worker,):
        assert worker.facts == {"threads": "3", "arenas": None, "torch": False}
        first, second = worker.work(2), worker.work(5)
    assert (first.found, first.steps) == ({"count": 42}, 2)
    assert (second.found, second.steps) == ({"count": 47}, 5)
    assert first.wall > 0
    assert first.peak_bytes > 2**20


def test_a_contestant_that_fails_is_named_with_its_error() -> None:
    with (
        workers().started([contestant("failing")], threads=1) as (worker,),
        pytest.raises(SystemExit, match=r"(?s)failing failed: .*RuntimeError: no 3 steps today"),
    ):
        worker.work(3)


def test_a_contestant_whose_process_dies_is_named_with_its_exit_code() -> None:
    with (
        workers().started([contestant("dying")], threads=1) as (worker,),
        pytest.raises(SystemExit, match="dying failed: exit code 7"),
    ):
        worker.work(1)


def test_a_contestant_that_cannot_be_made_is_named() -> None:
    with pytest.raises(SystemExit, match=r"(?s)unknown failed: .*AttributeError"):
        workers().Worker(contestant("unknown"), 1).wait()


def test_contestants_start_and_warm_up_side_by_side() -> None:
    contestants = [contestant("Counting", start=40), contestant("Counting", start=1)]
    contestants[1] = replace(contestants[1], name="other")
    with workers().started(contestants, threads=1, concurrently=True) as started_workers:
        assert [worker.facts["torch"] for worker in started_workers] == [False, False]
        turns = workers().work_together(started_workers, 2)
    assert {name: turn.found["count"] for name, turn in turns.items()} == {
        "Counting": 42,
        "other": 3,
    }
