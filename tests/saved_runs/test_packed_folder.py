"""Packed matrices on disk: the same numbers, and never numbers of other or damaged weights."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid.errors import CheckpointError
from pellucid.model import Transformer, Weights
from pellucid.model.packed.packer import Packer
from pellucid.saved_runs import packed_folder
from support.published import ids as ids_of
from support.published import retensor, write


@pytest.fixture(autouse=True)
def small_models_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_folder, "LEAST_BYTES", 0)


def open_packed(folder: Path, weights: Weights = "int4") -> Transformer:
    return pellucid.load(folder, weights=weights, packed=True).model


def assert_same(one: Transformer, other: Transformer) -> None:
    state = one.state_dict()
    assert state.keys() == other.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in other.state_dict().items())
    ids = ids_of(7)
    with torch.no_grad():
        assert torch.equal(one(ids), other(ids))


@pytest.fixture(params=["gpt2", "llama", "run"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "run":
        return shutil.copytree(request.getfixturevalue("trained"), tmp_path / "model")
    write(tmp_path / "model", request.param)
    return tmp_path / "model"


@pytest.fixture
def no_packing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def refuse(*_: object) -> None:
        pytest.fail("a matrix was packed")

    return lambda: monkeypatch.setattr(Packer, "take", refuse)


@pytest.mark.parametrize("weights", ["bfloat16", "int8", "int4"])
def test_a_later_start_packs_nothing(
    weights: Weights, folder: Path, no_packing: Callable[[], None], tmp_path: Path
) -> None:
    first = open_packed(folder, weights)
    no_packing()
    assert_same(open_packed(folder, weights), first)
    shutil.copytree(folder, tmp_path / "copy")  # its files have other times
    assert_same(open_packed(tmp_path / "copy", weights), first)


def cut_off(folder: Path) -> None:
    (file,) = folder.rglob("matrices.safetensors")
    file.write_bytes(file.read_bytes()[:-1])


def flip_a_bit(folder: Path) -> None:
    (file,) = folder.rglob("matrices.safetensors")
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(content)


def change_manifest(**fields: object) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (file,) = folder.rglob("packed.json")
        file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | fields))

    return spoil


def no_manifest(folder: Path) -> None:
    (file,) = folder.rglob("packed.json")
    file.unlink()


def change_weights(folder: Path) -> None:
    def spoil(tensors: dict[str, torch.Tensor]) -> None:
        for tensor in tensors.values():
            tensor += 0.25

    retensor(folder, spoil)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (cut_off, "damaged"),
        (flip_a_bit, "damaged"),
        (no_manifest, "does not exist"),
        (change_manifest(layout=0), "layout is 0, expected 1"),
        (change_manifest(pellucid="0.0"), "pellucid is '0.0'"),
        (change_manifest(byteorder="other"), "byteorder is 'other'"),
        (change_manifest(matrices={}), "matrices is {}"),
        (change_manifest(sources=3), "made from other files"),
        (change_manifest(sources={"config.json": 1, "model.safetensors": 2}), "made from another"),
        (change_weights, "made from another model.safetensors"),
    ],
)
def test_what_does_not_fit_is_packed_anew_with_a_word(
    spoil: Callable[[Path], None],
    reason: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    no_packing: Callable[[], None],
) -> None:
    folder = tmp_path / "dir"
    write(folder, "gpt2")
    open_packed(folder)
    spoil(folder)
    with caplog.at_level(logging.WARNING):
        repacked = open_packed(folder)
    assert "packed anew" in caplog.text
    assert reason in caplog.text
    caplog.clear()
    no_packing()
    assert_same(open_packed(folder), repacked)
    assert not caplog.text


def test_a_folder_that_cannot_be_written_is_read_all_the_same(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = open_packed(folder)
    shutil.rmtree(folder / "packed")
    (folder / "packed").touch()  # a file is in the way: nothing can be written there
    with caplog.at_level(logging.INFO):
        assert_same(open_packed(folder), expected)
    assert "not kept" in caplog.text


def test_a_damaged_model_is_refused_whatever_was_packed(trained: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(trained, tmp_path / "run")
    open_packed(folder)
    newest = (folder / "checkpoints" / "latest").read_text(encoding="utf-8").strip()
    file = folder / "checkpoints" / newest / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        open_packed(folder)
    file.unlink()
    with pytest.raises(CheckpointError, match="missing"):
        open_packed(folder)


def test_matrices_by_a_calibration_text_are_known_by_its_digest(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    text, other = tmp_path / "text.txt", tmp_path / "other.txt"
    text.write_text("the cat sat on the mat, and the dog did not. " * 9, encoding="utf-8")
    other.write_text("a text of quite other words, as long as the first. " * 9, encoding="utf-8")

    def calibrate(file: Path, *, packed: bool = True) -> Transformer:
        return pellucid.load(folder, weights="int4", packed=packed, calibrate=[str(file)]).model

    first, plain = calibrate(text), open_packed(folder)
    assert_same(first, calibrate(text, packed=False))
    assert any(not torch.equal(t, plain.state_dict()[n]) for n, t in first.state_dict().items())
    assert sorted(file.name for file in (folder / "packed").iterdir()) == [
        "int4",
        "int4-calibrated",
    ]
    with caplog.at_level(logging.WARNING), monkeypatch.context() as patch:
        patch.setattr(Packer, "calibrate", lambda *_: pytest.fail("it was calibrated again"))
        assert_same(calibrate(text), first)
        assert not caplog.text
    calibrate(other)
    assert "calibration is" in caplog.text
