"""Axes hold all their values, and their ticks are numbers that people write."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.report.axes import axis_for, label, log_axis_for, steps_axis

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8)


@given(values, st.booleans())
@settings(max_examples=60)
def test_every_value_lies_on_its_axis_and_the_ticks_are_few(
    known: list[float], from_zero: bool
) -> None:
    axis = axis_for(known, from_zero=from_zero)
    assert all(-1e-6 <= axis.share(value) <= 1 + 1e-6 for value in known)
    assert 2 <= len(axis.ticks) <= 7


@given(st.lists(st.floats(1e-8, 1e8), min_size=1, max_size=8))
@settings(max_examples=40)
def test_a_logarithmic_axis_holds_every_value_between_powers_of_ten(known: list[float]) -> None:
    axis = log_axis_for(known)
    assert all(-1e-6 <= axis.share(value) <= 1 + 1e-6 for value in known)


@given(st.integers(0, 10**7))
@settings(max_examples=40)
def test_steps_are_ticked_at_whole_numbers_up_to_the_last(last: int) -> None:
    axis = steps_axis(last)
    assert axis.ticks[0] == 0
    assert axis.ticks[-1] <= axis.high == max(last, 1)
    assert 2 <= len(axis.ticks) <= 7
    assert all(tick == int(tick) for tick in axis.ticks)


def test_ticks_read_as_people_write_them() -> None:
    assert [label(x) for x in (0, 0.5, 2000, 0.0003, -1.5, 250_000)] == [
        "0",
        "0.5",
        "2k",
        "3e-4",
        "-1.5",
        "250k",
    ]
