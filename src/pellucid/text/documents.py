"""One document of a corpus, and the count of what was read.

Comes in: a name and a text, from whoever read them. Goes out: the pair, frozen.
Does not know: where the text came from, how it becomes token ids, which split it falls into.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """A text with a name; `name` says where it came from and is never trained on."""

    name: str
    text: str


@dataclass(slots=True, kw_only=True)
class Tally:
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


def without_duplicates(
    documents: Iterable[Document], tally: Tally, *, drop: bool
) -> Iterator[Document]:
    """The documents, exact copies of earlier ones counted, and left out where `drop` says so."""
    tally.duplicates_dropped = drop
    seen: set[bytes] = set()
    for document in documents:
        content = document.text.encode()
        digest = hashlib.sha256(content).digest()
        if digest in seen:
            tally.duplicates += 1
            tally.duplicate_bytes += len(content)
            if drop:
                continue
        seen.add(digest)
        yield document
