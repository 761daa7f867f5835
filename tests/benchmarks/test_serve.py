"""What the benchmark of the API counts."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


def serve() -> Any:
    return importlib.import_module("benchmarks.serve")


def test_rates_are_over_the_whole_time_and_the_first_token_is_a_median() -> None:
    module = serve()
    answers = [module.Answered(first, 1.0, 10) for first in (0.1, 0.2, 0.9)]
    row = module.summary("ours", answers, 2, 6.0, 1)
    assert row.requests_per_second == pytest.approx(0.5)
    assert row.tokens_per_second == pytest.approx(5)
    assert row.first_token_median == pytest.approx(0.2)
    assert row.first_token_p95 == pytest.approx(0.9)
    assert "| ours | 2 | 0.50 | 5 | 200 ms | 900 ms |" in module.table([row])


def test_no_answer_at_all_is_no_result() -> None:
    with pytest.raises(SystemExit, match="none of 3 clients"):
        serve().summary("ours", [], 3, 1.0, 0)
