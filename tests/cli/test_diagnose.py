"""`pellucid diagnose`: what it prints, in JSON too, and the code it returns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pellucid.cli import main
from support.tiny import train_tiny


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without residual paths."""
    folder = tmp_path_factory.mktemp("runs") / "broken"
    train_tiny(folder, steps=6, settings=["model.decoder.residual=NoResidual"])
    return folder


def test_cause_is_told_and_fails_where_asked(
    broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["diagnose", str(broken)]) == 0
    printed = capsys.readouterr().out
    assert "ARC001  fault  blocks have no residual path" in printed
    assert "what to do:" in printed
    assert "confidence: 97%" in printed
    assert all(len(line) <= 80 for line in printed.splitlines())
    assert main(["diagnose", str(broken), "--fail-on", "fault"]) == 4


def test_json_holds_every_finding(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["diagnose", str(broken), "--json", "--fail-on", "fatal"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["updates"] == 6
    assert result["failed"] is False
    assert result["findings"][0]["code"] == "ARC001"
    assert result["findings"][0]["evidence"]


def test_ignored_code_is_left_out(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(broken), "--ignore", "ARC001", "--fail-on", "warn"]) == 0


def test_what_cannot_be_diagnosed_is_refused(
    tmp_path: Path, broken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(tmp_path / "nothing")]) == 2
    assert main(["diagnose", str(broken), "--ignore", "ABC123"]) == 2
    assert "no finding has the code ABC123" in capsys.readouterr().err
