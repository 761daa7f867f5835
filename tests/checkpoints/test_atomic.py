"""A disk that is too small, or fills up in the middle: saved files stay; figures are given."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
import torch

from pellucid import runs
from pellucid.checkpoints import Checkpoint, Shelf, load, save
from pellucid.cli import main
from pellucid.errors import CheckpointError, RunError
from pellucid.runs import RunFolder, read_events
from pellucid.saved_runs.records import recorder
from pellucid.training import CheckpointSaved, events
from support.tiny import TINY, write_text

STEP = events.Finished(step=1, seconds=1.0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte, where this user may make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True
    ) if shutil.which("mount") else None  # fmt: skip
    if mount is None or mount.returncode:
        pytest.skip("only root can make a small disk")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def checkpoint(n_numbers: int) -> Checkpoint:
    tensors = {"w": torch.ones(n_numbers)}
    return Checkpoint(model=tensors, optimiser=tensors, random=tensors, state={"step": 1})


def full(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    usage = shutil.disk_usage("/")._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)


def test_what_a_checkpoint_takes_is_foretold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "one", checkpoint(10_000))
    n_bytes = sum(file.stat().st_size for file in (tmp_path / "one").iterdir())
    full(monkeypatch, n_bytes - 1)
    with pytest.raises(CheckpointError, match="was not written"):
        save(tmp_path / "two", checkpoint(10_000))
    assert not (tmp_path / "two").exists()
    full(monkeypatch, 2 * n_bytes)
    save(tmp_path / "two", checkpoint(10_000))


def test_on_a_small_disk_the_last_good_checkpoint_stays(small_disk: Path) -> None:
    shelf = Shelf(small_disk / "checkpoints")
    shelf.save(1, checkpoint(30_000), best=True, keep=2)
    before = sorted(small_disk.rglob("*"))
    with pytest.raises(CheckpointError, match=r"needs 1\.\d MB and its disk has 0\.\d MB left"):
        shelf.save(2, checkpoint(90_000), best=True, keep=2)
    assert sorted(small_disk.rglob("*")) == before
    assert load(shelf.latest()).state == {"step": 1}


def test_a_disk_that_fills_up_during_a_save_leaves_the_last_good_checkpoint(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(small_disk / "checkpoints")
    shelf.save(1, checkpoint(30_000), best=True, keep=2)
    before = sorted(small_disk.rglob("*"))
    full(monkeypatch, 10**9)  # another program takes the room in the meantime
    with pytest.raises(CheckpointError, match="earlier checkpoints are intact: make room"):
        shelf.save(2, checkpoint(90_000), best=True, keep=2)
    assert sorted(small_disk.rglob("*")) == before
    assert load(shelf.latest()).state == {"step": 1}


def test_a_line_that_the_disk_cannot_hold_is_not_there_at_all(small_disk: Path) -> None:
    file = small_disk / "metrics.jsonl"
    with recorder(file) as record:
        record(STEP)
        n_free = shutil.disk_usage(small_disk).free
        (small_disk / "others").write_bytes(b"x" * n_free)
        with pytest.raises(RunError, match="could not be written: No space left"):
            record(events.Sampled(step=1, sentence="x" * 9000, next_tokens=(), continuation=""))
        assert read_events(file) == [STEP]
        (small_disk / "others").unlink()
        record(STEP)
    assert read_events(file) == [STEP, STEP]


def test_half_a_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(FileIO):
        def write(self, line: Any) -> int:
            return super().write(line[:10])

    from pellucid.saved_runs import records

    full = re.escape(os.strerror(errno.ENOSPC))
    with Short(str(tmp_path / "m"), "ab") as stream, pytest.raises(RunError, match=full):
        records._append(stream, b"x" * 20, tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == b""


def test_a_training_on_a_full_disk_stops_and_goes_on_once_there_is_room(
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = [word for assignment in TINY for word in ("--set", assignment)]
    file, run = write_text(tmp_path / "text"), tmp_path / "run"

    save_on = Shelf.save

    def fill_up(shelf: Shelf, step: int, *rest: Any, **more: Any) -> Path:
        if step > 4:
            full(monkeypatch, 1000)
        return save_on(shelf, step, *rest, **more)

    monkeypatch.setattr(Shelf, "save", fill_up)
    words = ["train", str(file), "--out", str(run), "--steps", "12", *settings]
    assert main([*words, "--set", "text.held_out=0.2"]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "step-8 was not written: it needs 0." in message
    assert message.endswith(f"make room, then resume: pellucid train --resume {run}")
    folder = RunFolder(run)
    assert folder.shelf.steps() == [4]
    monkeypatch.undo()
    runs.resume(run, show=False)
    saved = [e.step for e in read_events(folder.metrics) if isinstance(e, CheckpointSaved)]
    assert saved == [4, 8, 12]
    first_model, second_model = (
        load(RunFolder(path).shelf.latest()).model for path in (trained, run)
    )
    assert all(torch.equal(first_model[name], second_model[name]) for name in first_model)
