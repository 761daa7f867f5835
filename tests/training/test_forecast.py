"""The remaining time of a run is predicted from the times of its parts."""

from __future__ import annotations

import pytest

from pellucid.training.forecast import Forecast, count_remaining


def test_each_kind_of_work_has_a_pace_of_its_own() -> None:
    forecast = Forecast()
    forecast.add("rows", 4.0, 8)
    forecast.add("evaluations", 3.0)
    assert forecast.seconds("rows", 100) == pytest.approx(50.0)
    assert forecast.seconds("evaluations", 2) == pytest.approx(6.0)
    assert forecast.seconds("checkpoints", 2) == 0.0


def test_the_first_of_a_kind_counts_until_there_is_another() -> None:
    forecast = Forecast()
    forecast.add("evaluations", 0.38)
    assert forecast.seconds("evaluations", 10) == pytest.approx(3.8)
    forecast.add("evaluations", 0.26)
    assert forecast.seconds("evaluations", 10) == pytest.approx(2.6)


#: Seconds of updates of two rows each, as they were recorded: the first cold, others disturbed.
LONG = (1.36, 1.40, 2.38, 1.36, 1.44, 1.28)
#: The same of four rows each, of a large vocabulary.
WIDE = (1.47, 1.53, 1.15, 1.17, 1.23, 1.15)


@pytest.mark.parametrize(("paces", "rows"), [(LONG, 2), (WIDE, 4)])
def test_after_six_updates_what_the_undisturbed_ones_take_is_foretold(
    paces: tuple[float, ...], rows: int
) -> None:
    forecast = Forecast()
    for seconds in paces:
        forecast.add("rows", seconds, rows)
    preserve_state = sorted(paces)[len(paces) // 2]
    assert forecast.seconds("rows", rows) == pytest.approx(preserve_state, rel=0.05)


def test_a_machine_that_becomes_slower_is_followed() -> None:
    forecast = Forecast()
    for seconds in [1.0] * 20 + [3.0] * 4:
        forecast.add("rows", seconds)
    assert forecast.seconds("rows", 1) == pytest.approx(1.0)
    forecast.add("rows", 3.0)
    assert forecast.seconds("rows", 1) == pytest.approx(3.0)


def test_what_was_never_done_takes_what_was_expected_and_then_what_it_took() -> None:
    forecast = Forecast()
    forecast.expect("checkpoints", 2.0)
    assert forecast.left(rows=0, evaluations=0, checkpoints=3) == pytest.approx(6.0)
    forecast.add("checkpoints", 3.0)
    assert forecast.left(rows=0, evaluations=0, checkpoints=2) == pytest.approx(6.0)


def test_work_is_worth_timing_alone_until_enough_is_known() -> None:
    forecast = Forecast()
    for seconds in [5.0, *[1.0] * 8]:
        forecast.add("rows", seconds)
        assert forecast.has_few_paces("rows")
    forecast.add("rows", 1.0)
    assert not forecast.has_few_paces("rows")


def test_what_is_done_at_intervals_and_at_the_end_is_counted() -> None:
    total, every = 10, 4  # after 4, 8 and 10
    assert [count_remaining(step, total, every) for step in (1, 4, 5, 8, 9, 10)] == [
        3,
        3,
        2,
        2,
        1,
        1,
    ]
    assert count_remaining(8, 8, 4) == 1
