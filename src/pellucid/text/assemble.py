"""The one door from a config to documents and a tokenizer.

Comes in: a `config.Corpus` or `config.Tokenizer`. Goes out: documents; a tokenizer trained on the
training split alone. No other file of this room reads a config.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from pellucid import config
from pellucid.text.documents import Document
from pellucid.text.files import documents_from
from pellucid.text.standard_library import standard_library_docs
from pellucid.text.tokenizers import Tokenizer, train_byte_pairs, train_bytes, train_characters


def assemble_documents(corpus: config.Corpus) -> list[Document]:
    """The documents of `corpus`."""
    match corpus:
        case config.StandardLibrary():
            return standard_library_docs()
        case config.Files(paths=paths):
            return documents_from(paths)
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
