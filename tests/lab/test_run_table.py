"""`pellucid runs`: each run by its own events, sorted, filtered, and deleted by name alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import main
from pellucid.cli.verbs.lab.runs import fitted_table
from pellucid.errors import ConfigError, RunError
from pellucid.lab.run_table import delete_runs, list_runs
from pellucid.runs import read_events
from pellucid.saved_runs.folder import RunFolder
from pellucid.training import Evaluated


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """Two whole runs, one that was killed, one that is damaged, and a folder that is none."""
    for name in ("second", "deep/first", "killed", "damaged"):
        shutil.copytree(trained, tmp_path / name)
    (tmp_path / "notes").mkdir()
    lines = (trained / "metrics.jsonl").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "killed" / "metrics.jsonl").write_text("".join(lines[: len(lines) // 2]), "utf-8")
    (tmp_path / "damaged" / "config.toml").write_text("seed = 'x'\n")
    return tmp_path


def test_each_run_is_a_row_with_the_numbers_of_its_events(folder: Path, trained: Path) -> None:
    rows = {row.name: row for row in list_runs(folder)}
    assert list(rows) == ["damaged", "deep/first", "killed", "second"]
    losses = [
        e.loss_nats for e in read_events(trained / "metrics.jsonl") if isinstance(e, Evaluated)
    ]
    row = rows["second"]
    assert (row.objective, row.state, row.step) == ("next-token", "finished", 12)
    assert row.best_loss == min(losses)
    assert row.data == "text.txt"
    assert rows["killed"].state == "unfinished"
    assert rows["damaged"].state == "damaged"
    assert "config.toml" in rows["damaged"].problem


def test_a_run_that_a_process_holds_is_training(folder: Path) -> None:
    with RunFolder(folder / "killed").locked():
        (row,) = list_runs(folder, conditions=["state=training"])
        with pytest.raises(RunError, match="is in use: stop it first"):
            delete_runs(folder, ["second", "killed"])
    assert row.name == "killed"
    assert (folder / "second").is_dir()


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (["state=finished"], ["deep/first", "second"]),
        (["state!=finished"], ["damaged", "killed"]),
        (["step<12"], ["killed"]),
        (["name~FIRST", "step>=12"], ["deep/first"]),
    ],
)
def test_rows_are_filtered(folder: Path, where: list[str], names: list[str]) -> None:
    assert [row.name for row in list_runs(folder, conditions=where)] == names


def test_rows_without_a_value_come_last(folder: Path) -> None:
    for descending in (False, True):
        rows = list_runs(folder, sort="best_loss", descending=descending)
        assert rows[-1].name == "damaged"
        losses = [row.best_loss for row in rows[:-1] if row.best_loss is not None]
        assert losses == sorted(losses, reverse=descending)


@pytest.mark.parametrize("condition", ["loss", "no_such=1", "step=x", "step~1", "state<finished"])
def test_a_condition_without_meaning_is_refused(folder: Path, condition: str) -> None:
    with pytest.raises(ConfigError):
        list_runs(folder, conditions=[condition])


def test_a_run_is_deleted_by_its_whole_name_and_files_of_the_user_stay(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_file = folder / "second" / "checkpoints" / "mine.txt"
    own_file.write_text("keep")
    for pattern in ("sec", "*", "../second"):
        with pytest.raises(RunError, match="nothing was deleted"):
            delete_runs(folder, [pattern])
    assert main(["runs", str(folder), "--delete", "second", "--delete", "deep/first"]) == 0
    text = capsys.readouterr().out
    assert "deleted second, but for files that pellucid did not write\ndeleted deep/first\n" in text
    assert [path for path in (folder / "second").rglob("*") if path.is_file()] == [own_file]
    assert not (folder / "deep" / "first").exists()
    assert (folder / "killed").is_dir()


def test_every_file_of_a_run_is_known_to_its_removal(trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained, tmp_path / "run")
    for name in (
        "report.html",
        "vitals.html",
        "non-finite/step-3/report.json",
        "start/model.safetensors",
    ):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("")
    assert delete_runs(tmp_path, ["run"])[0].is_gone
    assert not run.exists()


def test_a_folder_without_runs_is_no_error_and_no_folder_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words: list[Any] = ["runs", str(tmp_path)]
    assert main(words) == 0
    assert capsys.readouterr().out == f"{tmp_path} has no such runs\n"
    assert main(["runs", str(tmp_path / "none")]) == 2
    assert "name the folder that holds your runs" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("width", "left_out"),
    [(None, ""), (200, ""), (70, "data"), (40, "data, size, objective, updates")],
)
def test_a_narrow_terminal_gets_fewer_columns(width: int | None, left_out: str) -> None:
    cells = ("a-run", "sft", "24.8k", "questions.jsonl", "10 of 10", "3.3131", "calm", "finished")
    lines = fitted_table([cells], width)
    if width is not None:
        assert max(map(len, lines)) <= width
    note = f"left out: {left_out}" if left_out else lines[-1]
    assert lines[-1] == note
    assert lines[0].startswith("run")
    assert "3.3131" in lines[1]
