"""What is counted of writing, when it is refused, and what the table says of it."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


def generate() -> Any:
    return importlib.import_module("benchmarks.generate")


def turn(wall: float, *, steps: int = 10) -> Any:
    found = {"wall": wall, "processor": wall, "prompt": 0.5}
    return importlib.import_module("benchmarks.workers").Turn(steps, wall, wall, 0, found)


def summary(turns: dict[str, list[Any]]) -> Any:
    bandwidth = {"best": 1000.0, "by_processor": 1000.0}
    return generate().summary(turns, dict.fromkeys(turns, "bfloat16"), 5, bandwidth)


def test_a_share_is_that_of_the_bytes_that_a_token_reads() -> None:
    row = summary({"pellucid, bfloat16": [turn(1.0), turn(2.0), turn(1.0)]})["pellucid, bfloat16"]
    assert row["tokens_per_second"] == pytest.approx(10)
    assert row["share_of_bandwidth"] == pytest.approx(5 * 2 * 10 / 1000)


def test_ratios_are_taken_round_by_round() -> None:
    turns = {"ours": [turn(1.0), turn(9.0)], "theirs": [turn(3.0), turn(27.0)]}
    found = summary(turns)
    assert found["ours"]["faster_than"]["theirs"]["wall"] == pytest.approx(3)
    assert found["theirs"]["faster_than"]["ours"]["wall"] == pytest.approx(1 / 3)


def test_a_time_lost_in_noise_is_said_and_not_divided_by() -> None:
    turns = {"ours": [turn(1.0), turn(1.0)], "tiny": [turn(1.0), turn(-0.1)]}
    found = {
        "summary": summary(turns),
        "turns": turns,
        "said": "a shape",
        "bytes_per_second": {"best": 1e9},
        "same_first_tokens": {},
        "command": "benchmarks.generate",
        "date": "2026-01-01",
        "commit": "abc",
        "threads": 1,
        "load_before": 0.1,
        "versions": {"torch": "2"},
        "machine": importlib.import_module("benchmarks.machine").machine(),
    }
    assert list(found["summary"]) == ["ours"]
    assert generate().table(found).endswith("Lost in noise (more --new-tokens would tell): tiny.")


def test_models_that_write_otherwise_are_not_compared() -> None:
    ids = {"Hugging Face, float32": [1, 2], "pellucid, float32": [1, 3]}
    with pytest.raises(SystemExit, match=r"no parity: .* \[1, 2\] and pellucid, float32 \[1, 3\]"):
        generate().check_parity(ids)
    ids = {"pellucid, int8": [1], "pellucid without compiled code, int8": [2]}
    with pytest.raises(SystemExit, match="no parity"):
        generate().check_parity(ids)


def test_agreement_counts_the_first_tokens_that_are_alike() -> None:
    ids = {"pellucid, float32": [1, 2, 3], "peer": [1, 2, 4], "own weights": [9, 9, 9]}
    assert generate().agreement(ids, {"peer"}) == {"peer": 2}
