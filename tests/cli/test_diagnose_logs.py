"""`pellucid diagnose` of a user's log: findings, unanswerable questions, and refusals in words."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pellucid.cli import main
from support.foreign_logs import healthy, table, trainer_state


def test_log_is_diagnosed_and_what_it_cannot_say_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = healthy()
    log.losses[60:] = [math.nan] * 60
    log.norms[57:60] = [80.0, 300.0, 900.0]
    state = str(trainer_state(tmp_path / "trainer_state.json", log))
    assert main(["diagnose", state]) == 0
    printed = capsys.readouterr().out
    assert "60 rows up to update 600" in " ".join(printed.split())
    assert "NUM008  fatal  a value was not finite" in printed
    assert "what pellucid cannot check in this log" in printed
    assert "pellucid check" in printed
    assert all(len(line) <= 80 for line in printed.splitlines() if state not in line)
    assert main(["diagnose", str(tmp_path), "--fail-on", "fatal", "--json"]) == 4
    result = json.loads(capsys.readouterr().out)
    assert [finding["code"] for finding in result["findings"]] == ["NUM008"]
    assert result["failed"] is True
    assert any("VitalsCallback" in finding for finding in result["unsaid"])
    assert (
        main(["diagnose", state, "--ignore", "NUM008", "--ignore", "LOG001", "--fail-on", "fatal"])
        == 0
    )


def test_healthy_log_is_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(table(tmp_path / "log.csv", healthy()))
    assert main(["diagnose", log, "--vocab-size", "4096", "--fail-on", "warn"]) == 0
    printed = capsys.readouterr().out
    assert "nothing was found" in printed
    assert "--vocab-size" not in printed
    assert main(["diagnose", log]) == 0
    assert "--vocab-size N" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words", "says"),
    [
        ("step,loss\n1,2\n", ["--vocab-size", "1"], "must be 2 at least"),
        ("", [], "is empty"),
        ("a poem\n", [], "it has no row of numbers; expected a trainer_state.json"),
    ],
)
def test_what_is_no_log_is_refused(
    content: str,
    words: list[str],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert main(["diagnose", str(tmp_path / "a.csv"), *words]) == 2
    assert says in " ".join(capsys.readouterr().err.split())


def test_folder_with_neither_a_run_nor_a_log_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(tmp_path)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "neither a run (config.toml) nor a known log" in message
