"""What is left of a run is foretold from what its parts took."""

from __future__ import annotations

import pytest

from pellucid.training.forecast import Forecast, still_to_come


def test_each_kind_of_work_has_a_pace_of_its_own() -> None:
    forecast = Forecast()
    forecast.add("rows", 4.0, 8)
    forecast.add("evaluations", 3.0)
    assert forecast.seconds("rows", 100) == pytest.approx(50.0)
    assert forecast.seconds("evaluations", 2) == pytest.approx(6.0)
    assert forecast.seconds("checkpoints", 2) == 0.0


def test_the_latest_work_counts_most() -> None:
    forecast = Forecast()
    for seconds in (1.0, 1.0, 1.0, 3.0):
        forecast.add("rows", seconds, 1)
    assert 1.5 < forecast.seconds("rows", 1) < 3.0


def test_what_is_done_at_intervals_and_at_the_end_is_counted() -> None:
    total, every = 10, 4  # after 4, 8 and 10
    assert [still_to_come(step, total, every) for step in (1, 4, 5, 8, 9, 10)] == [3, 3, 2, 2, 1, 1]
    assert still_to_come(8, 8, 4) == 1
