"""Checkpoints on the shelf are whole, whatever happens while one is written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
import torch

from pellucid.checkpoints import (
    FILES,
    Checkpoint,
    Shelf,
    load,
    load_optimiser,
    save,
    verify,
    write_folder,
    write_text,
)
from pellucid.disk import Partial
from pellucid.errors import CheckpointError


def checkpoint(value: float = 1.0) -> Checkpoint:
    return Checkpoint(
        model={"a": torch.full((3,), value), "b": torch.arange(4).bfloat16()},
        optimiser={"a::momentum": torch.full((3,), -value)},
        random={"cpu": torch.get_rng_state()},
        state={"progress": {"step": 1}},
    )


def test_comes_back_as_it_was(tmp_path: Path) -> None:
    saved = checkpoint()
    save(tmp_path / "step-1", saved)
    loaded = load(tmp_path / "step-1")
    for saved_tensors, loaded_tensors in (
        (saved.model, loaded.model),
        (saved.optimiser, loaded.optimiser),
    ):
        assert saved_tensors.keys() == loaded_tensors.keys()
        assert all(torch.equal(saved_tensors[k], loaded_tensors[k]) for k in saved_tensors)
    assert torch.equal(loaded.random["cpu"], saved.random["cpu"])
    assert loaded.state == saved.state


@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors", "state.json"])
def test_one_flipped_bit_is_noticed(tmp_path: Path, name: str) -> None:
    save(tmp_path / "step-1", checkpoint())
    file = tmp_path / "step-1" / name
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        verify(tmp_path / "step-1")
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        load_optimiser(tmp_path / "step-1")


def test_truncated_and_missing_files_are_named(tmp_path: Path) -> None:
    save(tmp_path / "step-1", checkpoint())
    file = tmp_path / "step-1" / "model.safetensors"
    os.truncate(file, 10)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        load(tmp_path / "step-1")
    file.unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors is missing"):
        load(tmp_path / "step-1")
    (tmp_path / "step-1" / "checkpoint.json").unlink()
    with pytest.raises(CheckpointError, match="not a whole checkpoint"):
        load(tmp_path / "step-1")


def test_an_unknown_format_is_refused_with_what_to_use(tmp_path: Path) -> None:
    save(tmp_path / "step-1", checkpoint())
    file = tmp_path / "step-1" / "checkpoint.json"
    manifest = json.loads(file.read_text()) | {"format": 99, "pellucid": "9.0"}
    file.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=r"format 99.*use pellucid 9\.0"):
        load(tmp_path / "step-1")


def test_nothing_is_pickled(tmp_path: Path) -> None:
    save(tmp_path / "step-1", checkpoint())
    suffixes = {file.suffix for file in (tmp_path / "step-1").iterdir()}
    assert suffixes == {".safetensors", ".json"}


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_folder_whole(tmp_path: Path, failure: BaseException) -> None:
    save(tmp_path / "step-1", checkpoint(1.0))

    def write(folder: Path) -> None:
        (folder / "half").write_text("of it")
        (folder / "notes").write_text("of the user's")
        raise failure

    with pytest.raises((CheckpointError, KeyboardInterrupt)) as caught:
        write_folder(tmp_path / "step-1", ("half",), write, replace=True)
    if isinstance(failure, OSError):
        assert "the disk is full" in str(caught.value)
        assert "earlier checkpoints are intact" in str(caught.value)
    assert load(tmp_path / "step-1").model["a"][0] == 1.0
    # files that a user put into the unfinished folder stay, and nothing else
    left = [path.name for path in (tmp_path / "step-1.partial").iterdir()]
    assert left == ["notes"]


def test_replacing_leaves_the_new_one_alone(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        save(tmp_path / "step-1", checkpoint(value), replace=True)
    assert load(tmp_path / "step-1").model["a"][0] == 2.0
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]


def test_text_is_replaced_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "latest", "old")

    def refuse(*paths: object) -> None:
        raise OSError(errno.EIO, "the plug was pulled")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(CheckpointError):
        write_text(tmp_path / "latest", "new")
    assert (tmp_path / "latest").read_text() == "old"


def test_the_newest_and_the_best_stay(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "checkpoints")
    for step in (2, 4, 6, 10, 100):
        shelf.save(step, checkpoint(step), best=step == 4, keep=2)
    assert shelf.steps() == [4, 10, 100]
    assert shelf.latest().name == "step-100"
    assert shelf.best().name == "step-4"
    assert (tmp_path / "checkpoints" / "latest").read_text() == "step-100\n"


def test_a_damaged_latest_names_the_newest_whole_one(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    for step in (1, 2, 3):
        shelf.save(step, checkpoint(), best=False, keep=3)
    for step in (2, 3):
        os.truncate(shelf.path(step) / "model.safetensors", 3)
    with pytest.raises(CheckpointError, match=r"step-3.*damaged.*use .*step-1 instead"):
        shelf.latest()


def test_an_empty_shelf_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        Shelf(tmp_path / "none").latest()


def test_leftovers_of_a_crash_are_not_checkpoints_and_go_with_the_next_save(
    tmp_path: Path,
) -> None:
    shelf = Shelf(tmp_path)
    left = Partial(tmp_path / "step-5", FILES)
    (left.path / "model.safetensors").write_bytes(b"half")
    left.release()
    assert shelf.steps() == []
    shelf.save(6, checkpoint(), best=False, keep=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "run-id", "step-6"]
