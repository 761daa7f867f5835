"""What a corpus holds, from reading it once: the size and the hash of each document, no texts."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pellucid.data.documents import Piece, ReadCounts
from pellucid.errors import TextError

#: Bytes of each SHA-256 that are kept: no two texts in the world share them by chance.
KEPT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The documents of a corpus in order: `sizes` in bytes, the heads of their SHA-256, and whether
    they are `used`, which an exact copy of an earlier one may not be.

    `characters` has the lengths of those that came in several pieces; `longest` names the largest.
    """

    sizes: npt.NDArray[np.int64]
    digests: npt.NDArray[np.uint8]
    used: npt.NDArray[np.bool_]
    characters: dict[int, int]
    longest: str

    @property
    def documents(self) -> int:
        """How many are used."""
        return int(self.used.sum())

    @property
    def n_bytes(self) -> int:
        """All bytes of those that are used."""
        return int(self.sizes[self.used].sum())

    @property
    def sha256(self) -> str:
        """A hash of the contents in their order, and of what is left out of them."""
        digest = hashlib.sha256(self.digests.data)
        digest.update(np.packbits(self.used).data)
        return digest.hexdigest()

    def by_digest(self) -> npt.NDArray[np.intp]:
        """The places of the documents, in the order of their hashes; equal ones as they came."""
        heads = np.ascontiguousarray(self.digests).view(">u8").astype(np.uint64)
        return np.lexsort((heads[:, 1], heads[:, 0]))


def survey(pieces: Iterable[Piece], tally: ReadCounts, *, drop_duplicates: bool) -> Survey:
    """Read all pieces once, and count.

    Exact copies of earlier documents are counted in `tally`, and not used where `drop_duplicates`
    says so.
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
        digests += digest.digest()[:KEPT]
        digest, size, length, parts = hashlib.sha256(), 0, 0, 0
    text_survey = Survey(
        sizes=np.frombuffer(sizes, dtype=np.int64) if sizes else np.zeros(0, dtype=np.int64),
        digests=np.frombuffer(digests, dtype=np.uint8).reshape(-1, KEPT),
        used=np.ones(len(sizes), dtype=np.bool_),
        characters=characters,
        longest=longest,
    )
    _mark_copies(text_survey, tally, drop=drop_duplicates)
    return text_survey


def _mark_copies(text_survey: Survey, tally: ReadCounts, *, drop: bool) -> None:
    order = text_survey.by_digest()
    # equal ones are neighbours, and the first of them is the one that came first
    same = (text_survey.digests[order[1:]] == text_survey.digests[order[:-1]]).all(axis=1)
    copies = order[1:][same]
    tally.duplicates = len(copies)
    tally.duplicate_bytes = int(text_survey.sizes[copies].sum())
    tally.duplicates_dropped = drop
    if drop:
        text_survey.used[copies] = False


class ContentCheck:
    """A second look at documents: each is compared with what the survey found.

    Raises:
        TextError: from `check`, where a document is another than it was.
    """

    def __init__(self, found: Survey) -> None:
        self._found = found
        self._digest = hashlib.sha256()

    def check(self, place: int, piece: Piece) -> None:
        """Take in a piece of the document at `place`, and compare where it ends."""
        self._digest.update(piece.text.encode())
        if not piece.last:
            return
        if self._digest.digest()[:KEPT] != self._found.digests[place].tobytes():
            raise changed(piece.name)
        self._digest = hashlib.sha256()


def changed(name: str) -> TextError:
    """The refusal of a text that is not what it was a moment ago."""
    return TextError(f"{name} was changed while it was read: start again when it is finished")
