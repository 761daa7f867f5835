"""One pass over a corpus: the size and the hash of each document, without the texts."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pellucid.data.documents import Piece, ReadCounts
from pellucid.errors import TextError

#: Bytes of each SHA-256 that are stored: two texts do not share them by chance.
DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The documents of a corpus in order.

    Attributes:
        sizes: bytes of each document.
        digests: the first bytes of each SHA-256, (documents, `DIGEST_BYTES`).
        used: false for dropped documents, which are exact copies of earlier ones.
        characters: by place, the length of each document that came in several pieces.
        longest: the name of the largest document.
    """

    sizes: npt.NDArray[np.int64]
    digests: npt.NDArray[np.uint8]
    used: npt.NDArray[np.bool_]
    characters: dict[int, int]
    longest: str

    @property
    def documents(self) -> int:
        """The number of documents in use."""
        return int(self.used.sum())

    @property
    def n_bytes(self) -> int:
        """The bytes of all documents in use."""
        return int(self.sizes[self.used].sum())

    @property
    def sha256(self) -> str:
        """A hash of all documents in order, and of `used`."""
        digest = hashlib.sha256(self.digests.data)
        digest.update(np.packbits(self.used).data)
        return digest.hexdigest()

    def by_digest(self) -> npt.NDArray[np.intp]:
        """The places of the documents in the order of their hashes; copies in their own order."""
        heads = np.ascontiguousarray(self.digests).view(">u8").astype(np.uint64)
        return np.lexsort((heads[:, 1], heads[:, 0]))


def survey(pieces: Iterable[Piece], tally: ReadCounts, *, drop_duplicates: bool) -> Survey:
    """Read all pieces once.

    Args:
        pieces: all documents.
        tally: counts exact copies of earlier documents.
        drop_duplicates: whether to drop these copies.
    """
    sizes, digests = array("q"), bytearray()
    characters: dict[int, int] = {}
    longest, largest = "", -1
    digest, size, length, parts = hashlib.sha256(), 0, 0, 0
    for piece in pieces:
        content = piece.text.encode()
        digest.update(content)
        size, length, parts = size + len(content), length + len(piece.text), parts + 1
        if not piece.last:
            continue
        if parts > 1:
            characters[len(sizes)] = length
        if size > largest:
            longest, largest = piece.name, size
        sizes.append(size)
        digests += digest.digest()[:DIGEST_BYTES]
        digest, size, length, parts = hashlib.sha256(), 0, 0, 0
    text_survey = Survey(
        sizes=np.frombuffer(sizes, dtype=np.int64) if sizes else np.zeros(0, dtype=np.int64),
        digests=np.frombuffer(digests, dtype=np.uint8).reshape(-1, DIGEST_BYTES),
        used=np.ones(len(sizes), dtype=np.bool_),
        characters=characters,
        longest=longest,
    )
    _mark_copies(text_survey, tally, drop=drop_duplicates)
    return text_survey


def _mark_copies(text_survey: Survey, tally: ReadCounts, *, drop: bool) -> None:
    order = text_survey.by_digest()
    # copies are neighbours, and the original comes first
    is_copy = (text_survey.digests[order[1:]] == text_survey.digests[order[:-1]]).all(axis=1)
    copies = order[1:][is_copy]
    tally.duplicates = len(copies)
    tally.duplicate_bytes = int(text_survey.sizes[copies].sum())
    tally.duplicates_dropped = drop
    if drop:
        text_survey.used[copies] = False


class ContentCheck:
    """Compares documents with the survey on a second pass."""

    def __init__(self, corpus_survey: Survey) -> None:
        self._survey = corpus_survey
        self._digest = hashlib.sha256()

    def check(self, place: int, piece: Piece) -> None:
        """Hash a piece of the document at `place`; at its end, compare the document.

        Raises:
            TextError: the document has changed.
        """
        self._digest.update(piece.text.encode())
        if not piece.last:
            return
        if self._digest.digest()[:DIGEST_BYTES] != self._survey.digests[place].tobytes():
            raise changed_error(piece.name)
        self._digest = hashlib.sha256()


def changed_error(name: str) -> TextError:
    """The error for a text that changed between two passes."""
    return TextError(f"{name} changed while pellucid read it: start again when it is finished")
