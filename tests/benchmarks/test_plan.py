"""The page of `pellucid plan` has the tables of the newest results, and those are the code's."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


def its(module: str) -> Any:
    return importlib.import_module(f"benchmarks.{module}")


def test_the_page_has_the_newest_tables() -> None:
    page = its("plan_page").PAGE.read_text("utf-8")
    assert its("plan_page").filled(page) == page
    for table in its("plan_page").tables().values():
        assert table in page


def test_the_choices_have_the_figures_of_the_planner() -> None:
    page = its("plan_choices").PAGE.read_text("utf-8")
    assert its("plan_choices").filled(page) == page
    assert its("plan_choices").table() in page


def test_the_saved_predictions_are_those_of_the_code() -> None:
    saved = its("plan_page").newest("plan")["rows"]
    rows = its("plan_published").published()
    assert len(saved) == len(rows)
    for row, published in zip(saved[::10], rows[::10], strict=True):
        assert its("plan").figures(published) == row


def test_a_fitted_row_is_not_in_the_errors() -> None:
    row = {"table": "SCALE", "name": "x", "speed_off": 0.1, "fits": []}
    fitted = {**row, "speed_off": 9.0, "fits": ["the share of the peak of x"]}
    summary = its("plan").summaries([row, {**row, "speed_off": -0.3}, fitted])
    assert summary == {
        "speed, short table": {"rows": 2, "median": pytest.approx(0.2), "worst": 0.3}
    }
