"""The one door from a config to documents and a tokenizer.

Comes in: a `config.Corpus` or `config.Tokenizer`. Goes out: documents; a tokenizer, trained on the
training split alone or read from a file. No other file of this room reads a config.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

from pellucid import config
from pellucid.text.documents import Document
from pellucid.text.files import documents_from
from pellucid.text.from_file import tokenizer_from
from pellucid.text.standard_library import standard_library_docs
from pellucid.text.tokenizers import Tokenizer, train_byte_pairs, train_bytes, train_characters
from pellucid.text.words import train_word_pieces, train_words


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
    """The tokenizer that `tokenizer` describes; one that is trained sees `train` alone."""
    texts = (document.text for document in train)
    match tokenizer:
        case config.Bytes():
            return train_bytes()
        case config.Characters():
            return train_characters(texts)
        case config.BytePairs(vocab_size=vocab_size):
            return train_byte_pairs(texts, vocab_size)
        case config.Words(vocab_size=vocab_size):
            return train_words(texts, vocab_size)
        case config.WordPiece(vocab_size=vocab_size, lowercase=lowercase):
            return train_word_pieces(texts, vocab_size, lowercase=lowercase)
        case config.FromFile(path=path):
            return tokenizer_from(Path(path))
        case _:
            assert_never(tokenizer)
