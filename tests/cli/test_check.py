"""`pellucid check`: what it prints, in JSON too, and the code it returns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid.checkpoints import Checkpoint
from pellucid.cli import main
from pellucid.config import run_to_toml
from pellucid.model import assemble
from pellucid.presets import find
from pellucid.runs import RunFolder
from pellucid.tokenizers import train_bytes
from support.faults import tiny


def write(folder: Path, *, broken: bool = False) -> Path:
    """A run that was never trained, healthy or with equal blocks."""
    tokenizer = train_bytes()
    model = replace(tiny("llama3-8b"), vocab_size=tokenizer.vocab_size)
    run = RunFolder(folder)
    folder.mkdir(parents=True)
    tokenizer.save(run.tokenizer)
    built: Any = assemble(model, seed=3)
    if broken:
        with torch.no_grad():
            built.stack.blocks[1].load_state_dict(built.stack.blocks[0].state_dict())
    run.shelf.save(0, Checkpoint(built.state_dict(), {}, {}, {}), best=False, keep=1)
    run.config.write_text(run_to_toml(replace(find("nano"), model=model)), encoding="utf-8")
    return folder


def test_healthy_preset_is_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "gpt2", "--fail-on", "warn"]) == 0
    printed = capsys.readouterr().out
    assert "small twin" in printed
    assert "nothing was found" in printed


def test_finding_is_told_and_fails_where_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(write(tmp_path / "run", broken=True))
    assert main(["check", run]) == 0
    printed = capsys.readouterr().out
    assert "INI003  fault" in printed
    assert all(len(line) <= 80 for line in printed.splitlines() if run not in line)
    assert main(["check", run, "--fail-on", "fault", "--json"]) == 4
    result = json.loads(capsys.readouterr().out)
    assert result["failed"] is True
    assert [finding["code"] for finding in result["findings"]] == ["INI003"]
    assert main(["check", run, "--fail-on", "fatal"]) == 0
    assert main(["check", run, "--fail-on", "warn", "--ignore", "INI003"]) == 0


def test_run_is_checked_with_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"line {n} has {n * n} in it\n" for n in range(200)), "utf-8")
    assert main(["check", str(write(tmp_path / "run")), str(text), "--fail-on", "warn"]) == 0
    assert "tokens of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["check", "no-such-thing"], "is not a folder"),
        (["check", "gpt2", "no-such-text.txt"], "no-such-text.txt"),
        (["check", "gpt2", "--ignore", "ABC123"], "no finding has the code ABC123"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert says in " ".join(capsys.readouterr().err.split())
