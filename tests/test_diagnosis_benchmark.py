"""The benchmark of the diagnosis still runs: three short trainings, and its shares."""

from __future__ import annotations

import importlib
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from pellucid import config


def its(module: str) -> Any:
    """A module of the benchmark."""
    return importlib.import_module(f"benchmarks.diagnosis.{module}")


@pytest.fixture(scope="module")
def corpus() -> Any:
    draws = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(draws.choices(letters, k=draws.randint(2, 8))) for _ in range(300)]
    return its("rows").corpus_of([" ".join(draws.choices(words, k=2000))])


def short(job: Any, corpus: Any) -> dict[str, Any]:
    """A job's record after a few updates, as it is read back."""
    jobs = its("jobs")
    run = its("setups").loop(jobs.config_of(job), budget=config.Steps(count=6))
    result = its("record").record(jobs.build_training(job, corpus, run))
    return json.loads(json.dumps(jobs.header(job) | result))


def job(kind: str, seed: int = 11) -> Any:
    return its("jobs").Job("dev", "gpt", kind, "plain", 0, seed)


def test_every_job_of_both_splits_has_a_config_and_a_name_of_its_own() -> None:
    jobs, setups = its("jobs"), its("setups")
    for split in ("dev", "eval"):
        every = jobs.jobs(split)
        assert len({one_job.name for one_job in every}) == len(every)
        assert {one_job.arch for one_job in every} <= {*setups.TUNED, *setups.HELD_OUT}
        for one_job in every[::300]:
            assert jobs.config_of(one_job).seed == one_job.seed


def test_evaluation_has_enough_healthy_runs_for_a_claim_of_one_percent() -> None:
    healthy = sum(one_job.kind == "healthy" for one_job in its("jobs").jobs("eval"))
    assert healthy >= 300
    assert its("metrics").interval(0, healthy)[1] <= 0.01


def test_classes_are_at_least_45_and_splits_share_no_seed() -> None:
    jobs = its("jobs")
    assert len(jobs.FAULTS) >= 45
    seeds = [{one_job.seed for one_job in jobs.jobs(split)} for split in ("dev", "eval")]
    assert not seeds[0] & seeds[1]


def test_fault_is_recorded_and_judged_and_told_from_healthy_runs(
    corpus: Any, tmp_path: Path
) -> None:
    history, judging = its("record").history, its("judging")
    healthy = [short(job("healthy", seed), corpus) for seed in (31,)]
    for one_record in (*healthy, short(job("no causal mask"), corpus)):
        its("record").write(one_record, tmp_path / "dev" / f"{one_record['name']}.json")
    results = judging.judge_split(tmp_path / "dev")
    measures = results["ours"]["all"]
    assert (measures["false_alarms"]["count"], measures["false_alarms"]["of"]) == (0, 1)
    assert (measures["top_1"]["count"], measures["top_1"]["of"]) == (1, 1)
    assert "no causal mask" in judging.format_results(results)
    assert "no causal mask" in its("page").text_of(results, "diagnosis-2026-01-01.json")
    healthy_history = history(healthy[0])
    assert len(healthy_history.losses) == 6
    assert healthy_history.signs["attention.max_logit"]
    assert not history(healthy[0], last_update=0).losses


def test_interval_of_a_share_is_that_of_clopper_and_pearson() -> None:
    interval = its("metrics").interval
    low, high = interval(0, 300)
    assert low == 0
    assert math.isclose(high, 1 - 0.05 ** (1 / 300), rel_tol=1e-6)
    # of 3 in 20, from published tables
    low, high = interval(3, 20)
    assert math.isclose(low, 0.0321, abs_tol=1e-4)
    assert math.isclose(high, 0.3789, abs_tol=1e-4)


def test_hashes_name_thresholds_codes_and_code() -> None:
    hashes = its("freezing").hashes()
    assert all(len(value) == 64 for value in hashes.values())
    assert {"codes.toml", "thresholds.toml"} <= hashes.keys()
