"""The one door from a config to documents and a tokenizer.

Comes in: a `config.Text` or `config.Tokenizer`. Goes out: documents; a tokenizer trained on the
training split alone. No other file of this room reads a config.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from pellucid import config
from pellucid.text.documents import Document, Tally, without_duplicates
from pellucid.text.files import read_documents
from pellucid.text.standard_library import standard_library_docs
from pellucid.text.tokenizers import Tokenizer, train_byte_pairs, train_bytes, train_characters


def assemble_documents(text: config.Text) -> tuple[list[Document], Tally]:
    """The documents of a corpus, and what was read and what left out on the way."""
    tally = Tally()
    documents = _documents(text.corpus, tally)
    return list(without_duplicates(documents, tally, drop=text.drop_duplicates)), tally


def _documents(corpus: config.Corpus, tally: Tally) -> Iterator[Document]:
    match corpus:
        case config.StandardLibrary():
            yield from standard_library_docs()
        case config.Files(paths=paths, field=field):
            yield from read_documents(paths, field, tally)
        case _:
            assert_never(corpus)


def assemble_tokenizer(tokenizer: config.Tokenizer, train: Sequence[Document]) -> Tokenizer:
    """The tokenizer that `tokenizer` describes, trained on the documents of `train`."""
    texts = (document.text for document in train)
    match tokenizer:
        case config.Bytes():
            return train_bytes()
        case config.Characters():
            return train_characters(texts)
        case config.BytePairs(vocab_size=vocab_size):
            return train_byte_pairs(texts, vocab_size)
        case _:
            assert_never(tokenizer)
