"""An entry of the cache: built in a workshop, published whole, linked into runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pellucid.data import Document, Split, prepare_documents
from pellucid.data.cache import Workshop, drop, load_tokenizer, take
from pellucid.errors import TextError
from pellucid.tokenizers.train import train_bytes
from support.corpora import parts_of

SPLIT = Split(
    (Document("one", "a text to learn from"),), (Document("two", "and one more"),), "documents"
)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "cache" / "entry")


def test_a_tokenizer_is_kept_for_the_text_that_it_was_trained_on(workshop: Workshop) -> None:
    assert workshop.tokenizer("ab") is None
    tokenizer = train_bytes()
    workshop.keep_tokenizer(tokenizer, "ab")
    kept_tokenizer = workshop.tokenizer("ab")
    assert kept_tokenizer is not None
    assert kept_tokenizer.sha256 == tokenizer.sha256
    assert workshop.tokenizer("cd") is None


def test_a_finished_entry_is_loaded_and_linked_and_a_damaged_one_is_refused(
    workshop: Workshop, tmp_path: Path
) -> None:
    entry = tmp_path / "cache" / "entry"
    assert load_tokenizer(entry) is None
    tokenizer = train_bytes()
    workshop.keep_tokenizer(tokenizer, "ab")
    prepare_documents(workshop.text, parts_of(SPLIT), tokenizer)
    assert workshop.finish() == entry
    loaded = load_tokenizer(entry)
    assert loaded is not None
    assert loaded.sha256 == tokenizer.sha256
    assert not (entry / "trained-on.txt").exists()
    prepared = take(entry, tmp_path / "run")
    assert prepared.train.tokens.tolist()
    (entry / "text" / "train.npy").unlink()
    with pytest.raises(TextError):
        load_tokenizer(entry)
    drop(entry)
    assert not entry.exists()
    assert (tmp_path / "run" / "train.npy").is_file()
