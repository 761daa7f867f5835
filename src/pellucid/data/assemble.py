"""From a config to a corpus and a tokenizer."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import assert_never

import tokenizers

from pellucid import config
from pellucid.config import encode
from pellucid.data.checksums import HashCache, own_code
from pellucid.data.documents import Piece, ReadCounts, pieces_of
from pellucid.data.manifest import TEXT_MANIFEST, FileFacts
from pellucid.data.shards.folder import manifest_sha256
from pellucid.data.sources import files_in, read_pieces, tables_in
from pellucid.data.standard_library import library_files, standard_library_docs
from pellucid.data.streams import Piped
from pellucid.errors import ConfigError
from pellucid.json_text import json_text
from pellucid.tokenizers.from_file import tokenizer_from
from pellucid.tokenizers.tokenizer import Tokenizer
from pellucid.tokenizers.train import (
    train_byte_pairs,
    train_bytes,
    train_characters,
    train_word_pieces,
    train_words,
)

#: Reads a corpus from its start, as often as you call it, and counts what it reads.
Corpus = Callable[[ReadCounts], Iterator[Piece]]


def assemble_corpus(corpus: config.Documents) -> Corpus:
    """A function that reads the documents of a corpus, in pieces."""
    match corpus:
        case config.StandardLibrary():
            documents = cache(standard_library_docs)  # a few megabytes, and slow to collect
            return lambda _: pieces_of(documents())
        case config.Files(paths=paths, field=field):
            piped = Piped()
            return lambda tally: read_pieces(paths, field, tally, piped)
        case config.Mixture(sources=sources):
            return lambda tally: _mixed(sources, tally)
        case _:
            assert_never(corpus)


def _mixed(sources: Iterable[config.Source], tally: ReadCounts) -> Iterator[Piece]:
    """The documents of all sources, one source after another."""
    for number, source in enumerate(sources):
        for piece in read_pieces(source.paths, source.field, tally, Piped()):
            yield replace(piece, source=number)


def documents_of(text: config.Text) -> config.Documents:
    """The corpus, if it consists of documents.

    Raises:
        ConfigError: it consists of rows with columns.
    """
    if isinstance(text.corpus, config.Prepared):
        raise ConfigError(
            f"text.corpus is {text.corpus.path}, whose text is encoded already, but this needs "
            "documents: name the files of text that it was prepared from"
        )
    if isinstance(text.corpus, config.Rows):
        raise ConfigError(
            f"text.corpus is {type(text.corpus).__name__}, which has rows with columns, but this "
            "needs documents: name files or folders of text; for tables, choose the column with "
            "--field"
        )
    return text.corpus


def fingerprint(text: config.Text, hash_cache: HashCache) -> str | None:
    """A hash of everything that prepared data depend on: content, config, and the code.

    It is None for standard input, a pipe, or a file that cannot be read.

    Args:
        text: the config.
        hash_cache: the hashes of large files that did not change.

    Raises:
        TextError: a path that does not exist, a folder without text, a file that is no tokenizer.
    """
    tally = ReadCounts()
    files = _files_of(text, tally)
    if files is None:
        return None
    path = text.tokenizer.path if isinstance(text.tokenizer, config.FromFile) else None
    hashes = [own_code(), None if path is None else tokenizer_from(Path(path)).sha256]
    versions = [sys.version, tokenizers.__version__]
    digest = hashlib.sha256(json_text([encode(text), hashes, versions, tally.other_files]).encode())
    try:
        for file in files:
            digest.update(bytes.fromhex(hash_cache.sha256(file)))
            digest.update(hashlib.sha256(str(file).encode("utf-8", "surrogatepass")).digest())
    except OSError:  # reading the text refuses the file by its name
        return None
    hash_cache.save()
    return digest.hexdigest()


def _files_of(text: config.Text, tally: ReadCounts) -> list[Path] | None:
    """The files of a corpus; None if one is a pipe, which can be read only once."""
    match text.corpus:
        case config.StandardLibrary():
            files = library_files()
        case config.Files(paths=paths, field=field):
            files = None if "-" in paths else files_in(paths, field, tally)
        case config.Mixture(sources=sources):
            files = [file for s in sources for file in files_in(s.paths, s.field, tally)]
        case config.Prepared():
            files = None
        case rows:
            files = None if "-" in rows.paths else tables_in(rows.paths)
    if files is None or not all(file.is_file() for file in files):
        return None
    return list(files)


def source_hashes(text: config.Text, hash_cache: HashCache) -> tuple[FileFacts, ...]:
    """The name and the hash of each file that a corpus is read from; none of a pipe.

    Args:
        text: the config.
        hash_cache: the hashes of large files that did not change.
    """
    if isinstance(text.corpus, config.Prepared):
        return (FileFacts(name=TEXT_MANIFEST, sha256=manifest_sha256(text.corpus.path)),)
    if isinstance(text.corpus, config.StandardLibrary):
        return ()  # hundreds of files of Python itself: its version names them
    try:
        return tuple(
            FileFacts(name=file.name, sha256=hash_cache.sha256(file))
            for file in _files_of(text, ReadCounts()) or ()
        )
    except OSError:  # reading the text refuses the file by its name
        return ()


def assemble_tokenizer(tokenizer: config.Tokenizer, texts: Iterable[str]) -> Tokenizer:
    """The tokenizer of a config; if it is trained, it reads `texts` once and nothing else."""
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
