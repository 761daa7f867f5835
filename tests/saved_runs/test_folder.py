"""A run's folder: its files are files, and a refusal says which is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.cli import main
from pellucid.cli.verbs import attach
from pellucid.errors import RunError
from pellucid.saved_runs import existing_folder


@pytest.mark.parametrize(
    "name",
    ["metrics.jsonl", "checkpoints/best", "checkpoints/latest", "checkpoints/run-id", ".lock"],
)
def test_a_folder_in_the_place_of_a_file_of_a_run_is_refused_by_name(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text("")
    assert existing_folder(tmp_path)[0].path == tmp_path
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(RunError, match="is a folder: a run has a file there"):
        existing_folder(tmp_path)
    assert main(["train", "--resume", str(tmp_path)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "is a folder" in message
    assert "make room" not in message


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (IsADirectoryError(21, "Is a directory", "a"), "move the folder away"),
        (NotADirectoryError(20, "Not a directory", "a"), "move the file away"),
        (PermissionError(13, "Permission denied", "a"), "check its permissions"),
        (OSError(28, "No space left on device", "a"), "make room"),
    ],
)
def test_an_error_of_the_disk_comes_with_the_advice_that_fits(
    error: OSError,
    advice: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(attach, "call", fail)
    assert main(["attach", "run"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert f"a cannot be read or written: {error.strerror}; {advice}" in message
    assert ("make room" in message) == (advice == "make room")
