"""Documents of a corpus, complete or in pieces, and the count of what was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """A text with a name; `name` says where it came from and is never trained on."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a document, in order. Most documents are one piece; one that memory may not hold
    comes in several, and `last` is true of the one that ends it.
    """

    name: str
    text: str
    last: bool = True


@dataclass(slots=True, kw_only=True)
class ReadCounts:
    """What was read and what was left out; grows while documents are read."""

    files: int = 0
    tables: int = 0
    rows: int = 0
    #: rows whose text is empty, null or blank: left out
    empty_rows: int = 0
    #: files in the given folders whose ending is not one that is read: left out
    other_files: int = 0
    #: documents with exactly the text of an earlier one
    duplicates: int = 0
    duplicate_bytes: int = 0
    duplicates_dropped: bool = False


def pieces_of(documents: Iterable[Document]) -> Iterator[Piece]:
    """Documents that are there already, each as one piece."""
    return (Piece(document.name, document.text) for document in documents)


def whole(pieces: Iterable[Piece]) -> Iterator[Document]:
    """Documents put together again, for texts that memory holds."""
    texts: list[str] = []
    for piece in pieces:
        texts.append(piece.text)
        if piece.last:
            yield Document(piece.name, "".join(texts))
            texts = []
