"""Proof from the shell: its table, its JSON, and a run that stops at an alarm and continues."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import main
from pellucid.cli.verbs.prove_on_alarm import Alarm
from pellucid.training import Interrupts, StoppedNonFinite, Vitals
from support.tiny import TINY, write_text

QUICK = ("--prove-steps", "4", "--prove-seeds", "2", "--prove-fixes", "1")


def tiny(*settings: str) -> list[str]:
    return [w for s in (*TINY, "text.held_out=0.2", *settings) for w in ("--set", s)]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without a residual path."""
    folder = tmp_path_factory.mktemp("wrong") / "run"
    text = write_text(folder.parent / "text")
    settings = tiny("model.decoder.residual=NoResidual", "model.decoder.n_layers=4")
    words = ["train", text, "--out", folder, "--steps", "6", "--json", *settings]
    assert main([str(word) for word in words]) == 0
    return folder


def test_diagnose_prove_prints_the_table_and_what_to_do(wrong: Path, stdout_of: Any) -> None:
    text = stdout_of("diagnose", wrong, "--prove", *QUICK)
    assert "ARC001" in text
    assert "fork 4/4  a residual path around every layer, seed" in text
    assert "proof: each fix was tried on 2 forks" in text
    assert "1  a residual path around every layer: " in text
    assert "recommended" in text
    assert text.isprintable() or "\x1b" not in text


def test_diagnose_prove_gives_one_json_document(wrong: Path, json_of: Any) -> None:
    result = json_of("diagnose", wrong, "--prove", "--prove-out", wrong.parent / "f.toml", *QUICK)
    (trial,) = result["proof"]["trials"]
    assert trial["codes"] == ["ARC001"]
    assert len(trial["pairs"]) == 2
    assert trial["verdict"] in ("helped", "mixed", "no difference", "harmed", "not finite")
    assert (result["proof"]["config"] is not None) == (wrong.parent / "f.toml").exists()


def test_alarm_is_given_once_a_sign_stays_sick() -> None:
    alarm = Alarm(Interrupts())

    def observe(step: int, word: str) -> None:
        alarm(Vitals(step=step, signs=(("loss.rise", 2, 9.0, word, step, ""),), rows=()))

    for step, word in ((1, "sick"), (2, "sick"), (2, "sick"), (3, "calm"), (4, "sick")):
        observe(step, word)
    assert not alarm.interrupts.asked
    observe(5, "sick")
    observe(6, "sick")
    assert alarm.interrupts.asked
    assert alarm.reason == "loss.rise stays sick (9) at update 6"
    alarm = Alarm(Interrupts())
    alarm(StoppedNonFinite(step=2, what="loss", where="objective", aside=""))
    assert alarm.reason


def test_run_with_an_alarm_goes_on_as_it_was_where_nobody_can_be_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pellucid.cli.verbs.prove_on_alarm._LASTING", 1)
    # how many looks so short a run can pay for depends on the machine
    monkeypatch.setattr("pellucid.vitals.overhead_budget.OverheadBudget.pays", lambda *_: True)
    monkeypatch.setattr("pellucid.vitals.schedule.LookSchedule.fits", lambda *_: True)
    settings = tiny("model.decoder.residual=NoResidual", "model.decoder.n_layers=4")
    text = write_text(tmp_path / "text")
    words = ["train", text, "--out", tmp_path / "run", "--steps", "12", "--json"]
    words += ["--prove-on-alarm", *QUICK, *settings]
    assert main([str(word) for word in words]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["step"] == 12
    assert "stays sick" in result["alarm"]
    assert result["findings"][0]["code"] == "ARC001"
    assert result["proof"]["trials"][0]["codes"] == ["ARC001"]


def test_alarm_without_signs_is_refused(refused: Any) -> None:
    assert "leave --no-vitals out" in refused("train", "--prove-on-alarm", "--no-vitals")


def test_resume_with_a_config_asks_for_a_folder_too(wrong: Path, refused: Any) -> None:
    message = refused("train", "--resume", wrong, "--config", wrong / "config.toml")
    assert "give both --config and --out" in message


def test_resume_under_another_config_goes_on_in_another_folder(wrong: Path, json_of: Any) -> None:
    before = (wrong / "metrics.jsonl").read_bytes()
    config = wrong.parent / "other.toml"
    config.write_text(
        (wrong / "config.toml").read_text("utf-8").replace("dropout = 0.1", "dropout = 0.0"),
        encoding="utf-8",
    )
    step = wrong / "checkpoints" / "step-4"
    new = wrong.parent / "new"
    result = json_of("train", "--resume", step, "--config", config, "--out", new)
    assert result["step"] == 6
    assert result["run"] == str(new)
    assert (wrong / "metrics.jsonl").read_bytes() == before
