"""What prepared data depend on: the content and the name of each file, the config, the code."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from pellucid import config
from pellucid.data import checksums
from pellucid.data.assemble import (
    assemble_tokenizer,
    documents_of,
    fingerprint,
    source_hashes,
)
from pellucid.data.checksums import HashCache
from pellucid.errors import ConfigError
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
    first_hash = hash_of(text_of(file), tmp_path)
    assert first_hash is not None
    assert hash_of(text_of(file), tmp_path) == first_hash
    assert hash_of(replace(text_of(file), held_out=0.25), tmp_path) != first_hash
    other = file.with_name("b.txt")
    other.write_bytes(file.read_bytes())
    assert hash_of(text_of(other), tmp_path) != first_hash
    file.write_text("a longer text", encoding="utf-8")
    assert hash_of(text_of(file), tmp_path) != first_hash


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


@pytest.mark.parametrize(
    ("kind", "pieces"),
    [
        (config.Bytes(), ["a", "b"]),
        (config.Characters(), ["a", "b"]),
        (config.BytePairs(vocab_size=300), ["ab"]),
        (config.Words(vocab_size=20), ["ab"]),
        (config.WordPiece(vocab_size=40, lowercase=True), ["ab"]),
    ],
)
def test_each_kind_of_tokenizer_is_made_of_the_texts(
    kind: config.Tokenizer, pieces: list[str]
) -> None:
    tokenizer = assemble_tokenizer(kind, ["ab ab ab"])
    assert [tokenizer.decode([token]) for token in tokenizer.encode("ab")] == pieces


def test_documents_are_of_files_and_not_of_rows_with_columns(file: Path) -> None:
    assert documents_of(text_of(file)) == config.Files(paths=(str(file),))
    rows = replace(text_of(file), corpus=config.Pairs(paths=("a.tsv",)))
    with pytest.raises(ConfigError, match=r"text.corpus is Pairs, which has rows with columns"):
        documents_of(rows)


def test_a_large_file_that_stayed_as_it_was_is_hashed_once(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "_LARGE", 0)
    monkeypatch.setattr(checksums, "_SETTLE_SECONDS", -1)
    cache = HashCache(tmp_path / "hashes.json")
    digest = cache.sha256(file)
    monkeypatch.setattr(checksums, "file_sha256", lambda file: "read again")
    assert cache.sha256(file) == digest == hashlib.sha256(file.read_bytes()).hexdigest()
    cache.save()
    assert HashCache(tmp_path / "hashes.json").sha256(file) == digest
