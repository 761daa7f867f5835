"""The benchmark of other people's loops: its splits, its numbers, and a few of its runs."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

parity = pytest.mark.parity
quietly = pytest.mark.filterwarnings("default")


def its(module: str) -> Any:
    return importlib.import_module(f"benchmarks.diagnosis.elsewhere.{module}")


def record(what: str, score: float, *findings: tuple[str, str], seed: int = 11) -> dict[str, Any]:
    return {
        "case": {
            "split": "tune",
            "style": "plain",
            "family": "gpt2",
            "task": "lm",
            "what": what,
            "seed": seed,
        },
        "score": score,
        "findings": [
            {"code": code, "severity": severity, "message": "so it is", "confidence": 0.9}
            for code, severity in findings
        ],
        "watching_seconds": 1.0,
        "training_seconds": 50.0,
        "cpu_seconds": 36.0,
    }


def test_numbers_tell_harmed_runs_from_healthy_ones_and_list_what_was_said_falsely() -> None:
    results = its("results").results(
        [
            record(its("cases").TWIN, 4.0),
            record("no step", math.inf, ("OPT017", "fatal")),
            record("sign of the loss", 9.0, ("LRN001", "note")),
            record("betas swapped", 5.0, ("UNK001", "warn"), ("OPT005", "fault")),
            record("learning rate too low", 4.01),
            record("no clipping", 4.02, ("OPT012", "warn")),
            record("constant rate", 4.3, ("OPT005", "warn")),
            record("logits divided by 30", 5.0, ("UNK002", "note")),
            record("rows by two", 4.0, ("UNK002", "note")),
            record("no warm-up", 1.0, seed=12),  # it has no twin, and is left out
            {"case": record("no step", 1.0, seed=13)["case"]}
            | {"error": "Traceback of\n  a place\nValueError: it broke", "cpu_seconds": 0.0},
        ]
    )
    shares = {name: (share["count"], share["of"]) for name, share in results["all"].items()}
    assert shares == {
        "detected": (2, 4),
        "first cause right": (1, 4),
        "right, if a cause was named": (1, 2),
        "could not tell": (1, 4),
        "detected, where it could tell": (2, 3),
        "first cause right, where it could tell": (1, 3),
        "false alarms": (1, 3),
        "could not tell, healthy": (1, 3),
        "alarms at odd runs that ended worse": (1, 1),
        "alarms at faults without harm": (0, 1),
    }
    assert [run["run"] for run in results["missed"]] == ["plain-gpt2-lm-sign_of_the_loss-11"]
    open_answers = [run["run"] for run in results["could not tell"]]
    assert open_answers == ["plain-gpt2-lm-logits_divided_by_30-11"]
    assert [run["run"] for run in results["could not tell, healthy"]] == [
        "plain-gpt2-lm-rows_by_two-11"
    ]
    assert results["false alarms"][0]["said"] == ["OPT012: so it is"]
    assert results["errors"] == [["plain-gpt2-lm-no_step-13", "ValueError: it broke"]]
    assert results["share of time spent watching"] == pytest.approx(0.02)
    assert results["cpu hours"] == pytest.approx(0.1)
    text = its("results").format_results(results)
    assert "said OPT005: so it is" in text
    assert "right: LOS009" in text


def test_an_alarm_next_to_what_is_left_open_is_an_answer() -> None:
    alarm_and_note = (("UNK002", "note"), ("OPT017", "fatal"))
    runs = [record(its("cases").TWIN, 4.0), record("no step", 6.0, *alarm_and_note)]
    (run,) = [run for run in its("results").judge(runs) if run.outcome == "harmed"]
    assert run.right
    assert not run.abstains


def test_page_tells_the_newest_result_and_every_miss(tmp_path: Path) -> None:
    section = its("page").section
    assert section(tmp_path) == ""
    results = its("results").results(
        [record(its("cases").TWIN, 4.0), record("no step", 6.0), record("no clipping", 4.0)]
    )
    head = {"date": "2026-01-02", "versions": {"torch": "2.13"}, "digests": {"text": "ab" * 32}}
    head |= {"split": "test", "of each kind": True, "seeds": [101, 102], "sample": None}
    head["trainings of the split"] = 20
    file = tmp_path / "elsewhere-test-default-2026-01-02.json"
    file.write_text(json.dumps(head | results), encoding="utf-8")
    text = section(tmp_path)
    assert "| harmed runs detected | 0% (0 of 1) [0%, 95%] |" in text
    assert "- plain-gpt2-lm-no_step-11: nothing (right: OPT017, OPT002)" in text
    assert "with each of the seeds 101, 102" in text
    assert "torch 2.13" in text


def test_every_fault_has_its_right_answers_and_every_answer_is_of_a_fault() -> None:
    assert set(its("faults.listed").KINDS) == set(its("answers").RIGHT)


@parity
def test_splits_share_neither_a_family_nor_a_style_and_are_as_large_as_promised() -> None:
    pytest.importorskip("transformers")
    cases = its("cases")
    splits = {name: cases.cases(name) for name in ("tune", "test")}
    kinds = [case.what for case in cases.one_of_each("test", 101) if case.what != cases.TWIN]
    assert sorted(kinds) == sorted({case.what for case in splits["test"]} - {cases.TWIN})
    for part in ("family", "style"):
        tuned, tested = ({getattr(case, part) for case in cases} for cases in splits.values())
        assert tuned
        assert tested
        assert not tuned & tested
    every = [case for split in splits.values() for case in split]
    assert len({case.family for case in every}) >= 14
    assert len({case.what for case in splits["test"] if case.fault}) >= 60
    assert sum(case.odd is not None for case in splits["test"]) >= 120
    assert len({case.seed for case in splits["test"]}) == 3
    for split in splits.values():
        assert len({case.name for case in split}) == len(split)
        assert {case.twin for case in split} <= set(split)


@parity
@quietly
@pytest.mark.parametrize("style", ["plain", "trainer"])
def test_run_that_never_steps_ends_worse_than_its_twin_and_is_not_run_twice(
    style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    # the folder tests/datasets is not the package datasets that the trainer looks for
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    fault = "no step" if style == "plain" else "learning rate too low"
    case = its("cases").Case("tune", style, "gpt2", "lm", fault, 11)
    recording = its("recording")
    for each_case in (case, case.twin):
        assert recording.make(each_case, "default", None, tmp_path, "digest") == ""
    records = recording.read(tmp_path, [case, case.twin], "default", "digest")
    results = its("results").results(records)
    assert results["outcomes"] == {"harmed": 1, "healthy": 1}
    assert results["all"]["detected"]["count"] == 1
    monkeypatch.setattr(recording, "run", lambda *_: pytest.fail("it was run twice"))
    recording.record_all(tmp_path, [case, case.twin], "default", None, 1, "digest")
    assert recording.read(tmp_path, [case], "default", "another digest") == []
