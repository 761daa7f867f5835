from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pellucid import config
from pellucid.errors import TextError
from pellucid.runs.text import ready_text
from pellucid.text import cache

TEXT = config.Text(
    corpus=config.Files(paths=("never",)),
    tokenizer=config.Characters(),
    held_out=0.2,
    drop_duplicates=False,
)


class Prepared:
    """Prepares the same corpus as often as asked, and knows what was said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "data.jsonl"
        self.write(40)

    def write(self, n: int) -> None:
        rows = (json.dumps({"t": f"this is the text number {i}"}) + "\n" for i in range(n))
        self.file.write_text("".join(rows), "utf-8")

    def __call__(self, name: str, held_out: float = 0.2) -> str:
        said: list[str] = []
        text = config.Text(
            corpus=config.Files(paths=(str(self.file),), field="t"),
            tokenizer=config.Characters(),
            held_out=held_out,
            drop_duplicates=False,
        )
        tokenizer, fill = ready_text(text, said.append)
        fill(self.folder / name / "text")
        tokenizer.save(self.folder / name / "tokenizer.json")
        return "; ".join(said)

    def contents(self, name: str) -> dict[str, bytes]:
        files = (p for p in (self.folder / name).rglob("*") if p.is_file())
        return {p.name: p.read_bytes() for p in files}

    @property
    def entries(self) -> list[Path]:
        every = sorted((self.folder / "cache" / "text").iterdir())
        return [entry for entry in every if not entry.name.startswith("partial-")]


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    monkeypatch.setenv("PELLUCID_CACHE", str(tmp_path / "cache"))
    return Prepared(tmp_path)


def test_same_text_is_prepared_once_and_is_the_same_afterwards(prepared: Prepared) -> None:
    assert "encoding" in prepared("one")
    said = prepared("two")
    assert "as it was prepared before" in said
    assert "encoding" not in said
    assert prepared.contents("one") == prepared.contents("two")
    assert len(prepared.entries) == 1


def test_other_content_or_config_is_prepared_anew(prepared: Prepared) -> None:
    prepared("one")
    assert "encoding" in prepared("two", held_out=0.3)
    prepared.write(41)
    assert "encoding" in prepared("three")
    assert len(prepared.entries) == 3


def test_damaged_entry_is_said_and_prepared_anew(prepared: Prepared) -> None:
    prepared("one")
    file = prepared.entries[0] / "text" / "train.npy"
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    said = prepared("two")
    assert "preparing the text anew" in said
    assert "train.npy is not what its checksum says" in said
    assert prepared.contents("one") == prepared.contents("two")
    assert "as it was prepared before" in prepared("three")


def test_run_keeps_its_text_when_the_cache_is_emptied(prepared: Prepared) -> None:
    prepared("one")
    prepared("two")
    before = prepared.contents("two")
    cache.drop(prepared.entries[0])
    assert prepared.contents("two") == before


def test_interrupted_keeping_leaves_no_entry(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pulled_plug(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pellucid.text.tokenizers.Tokenizer.save", pulled_plug)
        with pytest.raises(KeyboardInterrupt):
            prepared("one")
    assert prepared.entries == []
    assert "encoding" in prepared("two")


def test_cache_that_cannot_be_written_is_said_and_stops_nothing(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prepared.folder / "file").write_text("in the way")
    monkeypatch.setenv("PELLUCID_CACHE", str(prepared.folder / "file"))
    assert "not keeping the prepared text for later" in prepared("one")
    assert "train.npy" in prepared.contents("one")


def test_disk_without_hard_links_gets_copies(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*args: object) -> None:
        raise OSError("no hard links")

    monkeypatch.setattr(os, "link", unsupported)
    prepared("one")
    prepared("two")
    assert prepared.contents("one") == prepared.contents("two")


def test_off_keeps_nothing(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_CACHE", "off")
    for name in ("one", "two"):
        assert "encoding" in prepared(name)
    assert not (prepared.folder / "cache").exists()


def test_path_that_does_not_exist_is_refused_with_a_cache_too(prepared: Prepared) -> None:
    with pytest.raises(TextError, match="never does not exist"):
        ready_text(TEXT, lambda _: None)
