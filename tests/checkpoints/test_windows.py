"""Windows's refusals, refused here too: saving goes through all the same."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pellucid.checkpoints import write_folder, write_text
from pellucid.disk import rename
from pellucid.disk import unfinished_folder as unfinished
from pellucid.errors import CheckpointError


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """No folder can be opened, nothing that is open for reading alone can be synced.

    Synced files are in the list.
    """
    fcntl = pytest.importorskip("fcntl", reason="this machine is Windows: its own rules hold")
    synced: list[Path] = []
    really_open, really_sync = os.open, os.fsync
    names: dict[int, Path] = {}

    def open_file(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied", str(path))
        descriptor = really_open(path, flags, *rest, **named)
        names[descriptor] = Path(path)
        return descriptor

    def sync(descriptor: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(9, "Bad file descriptor")
        really_sync(descriptor)
        synced.append(names[descriptor])

    # only the names that `moving` uses: others open folders in their own way
    class Windows:
        open, fsync = staticmethod(open_file), staticmethod(sync)

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

    monkeypatch.setattr(rename, "os", Windows())
    for module in (rename, unfinished):
        monkeypatch.setattr(module, "_WINDOWS", True)
    return synced


def test_every_file_is_synced_though_no_folder_can_be(windows: list[Path], tmp_path: Path) -> None:
    write_text(tmp_path / "latest", "step-1")
    for fill in (partial(_fill, text="one"), partial(_fill, text="two")):
        write_folder(tmp_path / "step-1", ("a", "b"), fill, replace=True)
    assert (tmp_path / "latest").read_text() == "step-1"
    assert (tmp_path / "step-1" / "a").read_text() == "two"
    marks = (".pellucid-unfinished", ".pellucid-lock")
    synced = sorted(path.name for path in windows if path.name not in marks)
    assert synced == ["a", "a", "b", "b", "content"]


def test_a_file_that_somebody_reads_is_replaced_a_moment_later(
    windows: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = iter([True, True, False])
    really = os.replace

    def replace(source: Path, target: Path) -> None:
        if next(refused):
            raise PermissionError(13, "Access is denied", str(target))
        really(source, target)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(rename.time, "sleep", lambda seconds: None)
    write_text(tmp_path / "metrics.jsonl", "new")
    assert (tmp_path / "metrics.jsonl").read_text() == "new"


def test_a_file_that_is_never_let_go_is_named_and_stays_whole(
    windows: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "latest").write_text("old")

    def replace(source: Path, target: Path) -> None:
        raise PermissionError(13, "Access is denied", str(target))

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(rename.time, "sleep", lambda seconds: None)
    with pytest.raises(CheckpointError, match=r"latest could not be written: .*Access is denied"):
        write_text(tmp_path / "latest", "new")
    assert (tmp_path / "latest").read_text() == "old"


def _fill(folder: Path, text: str) -> None:
    for name in ("a", "b"):
        (folder / name).write_text(text)
