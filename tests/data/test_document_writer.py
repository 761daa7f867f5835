from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pellucid.data import Document, PreparedData, Split, open_prepared, prepare_documents
from pellucid.errors import TextError
from pellucid.tokenizers.train import train_byte_pairs, train_bytes, train_characters
from support.corpora import content_hash, parts_of, refuses_half_and_none

TRAIN = (Document("a", "one text"), Document("b", "another, größer"), Document("c", "🙂"))
SPLIT = Split(train=TRAIN, held_out=(Document("d", "held out"),), split_by="documents")
BYTES = train_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare_documents(tmp_path / "text", parts_of(SPLIT), BYTES)
    return tmp_path / "text"


def documents_in(prepared: PreparedData) -> list[str]:
    tokens, starts = prepared.train.tokens, [*prepared.train.starts, None]
    return [BYTES.decode(tokens[start:end].tolist()) for start, end in pairwise(starts)]


def test_every_document_can_be_read_back_from_its_place(folder: Path) -> None:
    prepared = open_prepared(folder, verify=True)
    assert documents_in(prepared) == [document.text for document in TRAIN]
    for start in prepared.train.starts:
        assert prepared.train.tokens[start] == BYTES.begin_id
    assert prepared.train.tokens[-1] == BYTES.end_id


def test_tokens_are_mapped_from_the_file_and_cannot_be_written(folder: Path) -> None:
    tokens = open_prepared(folder).train.tokens
    assert isinstance(tokens, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        tokens[0] = 0


def test_manifest_knows_what_lies_there(folder: Path) -> None:
    prepared = open_prepared(folder)
    train = prepared.manifest.train
    assert train.documents == 3
    assert train.n_bytes == prepared.train.n_bytes == sum(len(d.text.encode()) for d in TRAIN)
    assert train.n_tokens == len(prepared.train.tokens) == train.n_bytes + 2 * 3
    assert prepared.manifest.split_by == "documents"
    assert prepared.manifest.sha256 == content_hash([*SPLIT.train, *SPLIT.held_out])


def test_unknown_characters_are_counted_per_split(tmp_path: Path) -> None:
    tokenizer = train_characters(["abc"])
    known_document, other_document = Document("a", "abc"), Document("b", "abxyé")
    split = Split(train=(known_document,), held_out=(other_document,), split_by="documents")
    manifest = prepare_documents(tmp_path / "text", parts_of(split), tokenizer).manifest
    assert manifest.train.unknown == 0.0
    assert manifest.held_out.unknown == 3 / 7  # begin and end count as tokens


def test_ids_are_as_wide_as_the_vocabulary_needs(folder: Path) -> None:
    assert open_prepared(folder).train.tokens.dtype == np.uint16


@pytest.mark.parametrize("name", ["train.npy", "train.starts.npy", "held_out.npy"])
def test_flipped_byte_is_found_by_its_checksum(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    open_prepared(folder)  # without checking, nobody can tell
    with pytest.raises(TextError, match=f"{name} does not match its checksum.*start a new run"):
        open_prepared(folder, verify=True)


@pytest.mark.parametrize("name", ["text.json", "train.npy", "held_out.starts.npy"])
def test_missing_or_truncated_file_is_refused_without_checking(folder: Path, name: str) -> None:
    refuses_half_and_none(folder, name)


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither there")
@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", ["train.npy", "held_out.starts.npy"])
def test_a_device_or_a_pipe_in_place_of_a_file_is_refused_unread(
    folder: Path, name: str, verify: bool
) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/null")
    with pytest.raises(TextError, match=f"{name} is missing, or not a file"):
        open_prepared(folder, verify=verify)
    (folder / name).unlink()
    os.mkfifo(folder / name)  # which nobody writes to: opening it would wait for ever
    with pytest.raises(TextError, match=f"{name} is missing, or not a file"):
        open_prepared(folder, verify=verify)


def test_manifest_of_another_shape_is_refused_by_the_key(folder: Path) -> None:
    manifest = json.loads((folder / "text.json").read_text())
    del manifest["sha256"]
    (folder / "text.json").write_text(json.dumps(manifest))
    with pytest.raises(TextError, match="missing 'sha256'"):
        open_prepared(folder)


def test_interrupted_preparation_is_not_taken_for_a_finished_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "text"

    def pulled_plug(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pellucid.disk.rename.os.replace", pulled_plug)
        with pytest.raises(KeyboardInterrupt):
            prepare_documents(folder, parts_of(SPLIT), BYTES)
    assert (tmp_path / "text.partial" / "train.npy").exists()
    with pytest.raises(TextError, match="damaged or incomplete"):
        open_prepared(folder)
    # the next attempt continues from the files of the first one, or clears them
    prepared = prepare_documents(folder, parts_of(SPLIT), BYTES)
    assert documents_in(prepared) == [document.text for document in TRAIN]
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_hash_of_the_content_depends_on_texts_and_their_bounds_alone(tmp_path: Path) -> None:
    def content_hash(*documents: Document) -> str:
        split = Split(documents, (Document("d", "held out"),), "documents")
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        return prepare_documents(place, parts_of(split), BYTES).manifest.sha256

    ab = Document("1", "a"), Document("2", "b")
    assert content_hash(*ab) == content_hash(Document("x", "a"), Document("y", "b"))
    assert content_hash(*ab) != content_hash(Document("1", "ab"))
    assert content_hash(*ab) != content_hash(*ab[::-1])


def test_preparing_twice_gives_the_same_files_with_any_number_of_processes(tmp_path: Path) -> None:
    for name, n_processes in (("one", 1), ("two", 2)):
        tokenizer = train_byte_pairs([document.text for document in TRAIN], 270)
        prepare_documents(tmp_path / name, parts_of(SPLIT), tokenizer, n_processes=n_processes)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
