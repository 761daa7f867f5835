"""A verdict follows from the checks: intervals decide, and one seed decides nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.course.experiments.record import (
    Check,
    Number,
    Outcome,
    Verdict,
    in_range,
    judge,
    lower_bound,
    upper_bound,
)
from pellucid.lab import mean_interval


def sampled(*values: float) -> Number:
    return Number(name="x", values=values, seeds=tuple(range(len(values))))


def computed(value: float) -> Number:
    return Number(name="x", values=(value,), seeds=())


@pytest.mark.parametrize(
    ("check", "number", "outcome"),
    [
        (lower_bound("x", 1), computed(1.0), "holds"),
        (lower_bound("x", 1), computed(0.9), "fails"),
        (lower_bound("x", math.inf), computed(math.inf), "holds"),
        (in_range("x", 0, 0), computed(0.0), "holds"),
        (upper_bound("x", 1), computed(math.nan), "undecided"),
        (lower_bound("x", 0), sampled(1.0, 1.1, 0.9), "holds"),
        (upper_bound("x", 0), sampled(1.0, 1.1, 0.9), "fails"),
        (lower_bound("x", 0), sampled(1.0, -1.0, 2.0), "undecided"),
        (lower_bound("x", 1), sampled(1.0, 1.1, 0.9), "undecided"),
        (in_range("x", 0, 2), sampled(1.0, 1.1, 0.9), "holds"),
        (lower_bound("x", 0), sampled(1.0), "undecided"),
        (lower_bound("x", 0), sampled(1.0, math.inf), "undecided"),
    ],
)
def test_a_check_is_decided_by_the_value_or_by_its_interval(
    check: Check, number: Number, outcome: Outcome
) -> None:
    assert check.outcome(number) == outcome


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=6), st.floats(-5, 5))
def test_a_check_holds_exactly_if_the_whole_interval_is_in_the_range(
    values: list[float], low: float
) -> None:
    ends = mean_interval(values)
    assert ends is not None
    outcome = lower_bound("x", low).outcome(sampled(*values))
    assert (outcome == "holds") == (ends[0] >= low)
    assert (outcome == "fails") == (ends[1] < low)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        (["holds", "holds"], Verdict.CONFIRMED),
        (["fails", "fails"], Verdict.CONTRADICTED),
        (["holds", "fails", "undecided"], Verdict.IN_PART),
        (["holds", "undecided"], Verdict.NOT_DECIDED),
        (["fails", "undecided"], Verdict.NOT_DECIDED),
        (["undecided"], Verdict.NOT_DECIDED),
    ],
)
def test_the_verdict_is_one_of_four(outcomes: list[Outcome], verdict: Verdict) -> None:
    assert judge(outcomes) == verdict


def test_a_check_says_its_range_and_what_would_refute_it() -> None:
    assert str(in_range("x", 0.5, 2)) == "x: from 0.5 to 2"
    assert in_range("x", 0.5, 2).refuted_by == "x below 0.5 or above 2"
    assert (str(lower_bound("x", 3)), lower_bound("x", 3).refuted_by) == (
        "x: at least 3",
        "x below 3",
    )
    assert (str(upper_bound("x", 3)), upper_bound("x", 3).refuted_by) == (
        "x: at most 3",
        "x above 3",
    )
