"""What prepared data depend on: the content and the name of each file, the config, the code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pellucid import config
from pellucid.data.assemble import fingerprint, source_hashes
from pellucid.data.checksums import HashCache
from pellucid.presets import find
from pellucid.tokenizers.train import train_bytes, train_characters


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "a.txt"
    file.write_text("a text", encoding="utf-8")
    return file


def text_of(*paths: Path | str, tokenizer: config.Tokenizer | None = None) -> config.Text:
    text = find("nano").text
    assert isinstance(text, config.Text)
    corpus = config.Files(paths=tuple(map(str, paths)))
    return replace(text, corpus=corpus, tokenizer=tokenizer or config.Bytes())


def hash_of(text: config.Text, tmp_path: Path) -> str | None:
    return fingerprint(text, HashCache(tmp_path / "hashes.json"))


def test_the_same_files_and_config_have_the_same_fingerprint(file: Path, tmp_path: Path) -> None:
    once = hash_of(text_of(file), tmp_path)
    assert once is not None
    assert hash_of(text_of(file), tmp_path) == once
    assert hash_of(replace(text_of(file), held_out=0.25), tmp_path) != once
    other = file.with_name("b.txt")
    other.write_bytes(file.read_bytes())
    assert hash_of(text_of(other), tmp_path) != once
    file.write_text("a longer text", encoding="utf-8")
    assert hash_of(text_of(file), tmp_path) != once


def test_a_tokenizer_file_counts_by_its_content(file: Path, tmp_path: Path) -> None:
    stored = tmp_path / "tokenizer.json"
    text = text_of(file, tokenizer=config.FromFile(path=str(stored)))
    hashes = []
    for tokenizer in (train_bytes(), train_characters(["abc"]), train_bytes()):
        tokenizer.save(stored)
        hashes.append(hash_of(text, tmp_path))
    assert hashes[0] == hashes[2] != hashes[1]


def test_what_can_be_read_only_once_has_no_fingerprint(tmp_path: Path) -> None:
    assert hash_of(text_of("-"), tmp_path) is None
    assert source_hashes(text_of("-"), HashCache(tmp_path / "hashes.json")) == ()


def test_each_file_of_a_corpus_has_its_name_and_hash(file: Path, tmp_path: Path) -> None:
    (facts,) = source_hashes(text_of(file), HashCache(tmp_path / "hashes.json"))
    assert facts.name == "a.txt"
    assert facts.sha256 is not None
    assert len(facts.sha256) == 64
