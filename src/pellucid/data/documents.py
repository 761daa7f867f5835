"""Documents of a corpus, complete or in pieces, and the counts of reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """A text with a name that says where it came from; a model never reads the name.

    Attributes:
        name: the file, and the row of a table.
        text: the content.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a document. Most documents are one piece; a long one comes in several, in order.

    `last` is true for the piece that ends the document. `source` is its number in a mixture.

    Attributes:
        name: of the document.
        text: of this part.
    """

    name: str
    text: str
    last: bool = True
    source: int = 0


@dataclass(slots=True, kw_only=True)
class ReadCounts:
    """How many files, rows and documents were read, and how many were skipped or repeated.

    Attributes:
        files: that were read.
        tables: how many of them are tables.
        rows: of these tables.
        empty_rows: skipped rows: their text is empty, null or blank.
        other_files: skipped files: in a folder, only files with known endings are read.
        duplicates: documents with exactly the text of an earlier one.
        duplicate_bytes: their size.
        duplicates_dropped: whether they were left out.
    """

    files: int = 0
    tables: int = 0
    rows: int = 0
    empty_rows: int = 0
    other_files: int = 0
    duplicates: int = 0
    duplicate_bytes: int = 0
    duplicates_dropped: bool = False


def pieces_of(documents: Iterable[Document]) -> Iterator[Piece]:
    """Documents in memory, each as one piece."""
    return (Piece(document.name, document.text) for document in documents)


def join_pieces(pieces: Iterable[Piece]) -> Iterator[Document]:
    """Pieces joined to documents, for texts that fit into memory."""
    texts: list[str] = []
    for piece in pieces:
        texts.append(piece.text)
        if piece.last:
            yield Document(piece.name, "".join(texts))
            texts = []
