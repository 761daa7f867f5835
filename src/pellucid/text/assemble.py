"""The one door from a config to documents and a tokenizer.

Comes in: a `config.Text` or `config.Tokenizer`. Goes out: documents; a tokenizer, trained on the
training split alone or read from a file. No other file of this room reads a config.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import assert_never

import tokenizers

from pellucid import config
from pellucid.config import encode
from pellucid.text.documents import Document, Tally, without_duplicates
from pellucid.text.files import files_in, read_documents
from pellucid.text.from_file import tokenizer_from
from pellucid.text.standard_library import library_files, standard_library_docs
from pellucid.text.tokenizers import Tokenizer, train_byte_pairs, train_bytes, train_characters
from pellucid.text.words import train_word_pieces, train_words

# A tokenizer of another kind depends on more than the text, a file for one.
_FROM_TEXT_ALONE = frozenset((config.Bytes, config.Characters, config.BytePairs))


def assemble_documents(text: config.Text) -> tuple[list[Document], Tally]:
    """The documents of a corpus, and what was read and what left out on the way."""
    tally = Tally()
    documents = _documents(text.corpus, tally)
    return list(without_duplicates(documents, tally, drop=text.drop_duplicates)), tally


def fingerprint(text: config.Text) -> str | None:
    """A hash of all that prepared text depends on: content, config, and the code that prepares.

    None where nothing short of preparing can tell: standard input, a file that cannot be read, a
    tokenizer that depends on more than the text.

    Raises:
        TextError: a path that does not exist, or a folder without text.
    """
    if type(text.tokenizer) not in _FROM_TEXT_ALONE:
        return None
    tally = Tally()
    match text.corpus:
        case config.StandardLibrary():
            files = library_files()
        case config.Files(paths=paths, field=field):
            if "-" in paths:
                return None
            files = files_in(paths, field, tally)
        case _:
            assert_never(text.corpus)
    own = sorted(Path(__file__).parent.glob("*.py"))
    versions = [sys.version, tokenizers.__version__]
    digest = hashlib.sha256(json.dumps([encode(text), versions, tally.other_files]).encode())
    try:
        for file in (*own, *files):
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
            digest.update(hashlib.sha256(str(file).encode("utf-8", "surrogatepass")).digest())
    except OSError:  # read again, and refused by its name, where the text is read
        return None
    return digest.hexdigest()


def _documents(corpus: config.Corpus, tally: Tally) -> Iterator[Document]:
    match corpus:
        case config.StandardLibrary():
            yield from standard_library_docs()
        case config.Files(paths=paths, field=field):
            yield from read_documents(paths, field, tally)
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
