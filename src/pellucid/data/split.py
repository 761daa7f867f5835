"""The split into training and held-out data: the same every time.

Whole documents are held out if there are enough of them, else the end of each document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from pellucid.data.documents import Document, Piece, ReadCounts, join_pieces, pieces_of
from pellucid.data.survey import ContentCheck, Survey, changed_error, survey
from pellucid.errors import TextError

#: Reads a corpus from its start, every time the same.
Read = Callable[[], Iterable[Piece]]


@dataclass(frozen=True, slots=True)
class CorpusSide:
    """One side of a split: the bytes of each document, and a function that reads all pieces.

    Attributes:
        sizes: bytes of each document, (documents,).
        pieces: reads all documents, in order.
    """

    sizes: npt.NDArray[np.int64]
    pieces: Callable[[], Iterator[Piece]]

    @property
    def documents(self) -> int:
        """The number of documents."""
        return len(self.sizes)

    @property
    def n_bytes(self) -> int:
        """The bytes of all documents."""
        return int(self.sizes.sum())


@dataclass(frozen=True, slots=True)
class DividedCorpus:
    """Training and held-out text as streams.

    `split_by` is "documents" or "tails"; `sha256` is a hash of everything that decides the content
    of both sides.

    Attributes:
        train: what the model learns from.
        held_out: what it is evaluated on.
    """

    train: CorpusSide
    held_out: CorpusSide
    split_by: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Split:
    """As `DividedCorpus`, with all texts in memory.

    Attributes:
        train: documents to learn from.
        held_out: documents to evaluate on.
        split_by: "documents" or "tails".
    """

    train: tuple[Document, ...]
    held_out: tuple[Document, ...]
    split_by: str


def split(documents: Sequence[Document], share: float) -> Split:
    """Divide documents in memory, as `part` does.

    Raises:
        TextError: there is too little text to hold anything out.
    """

    def read() -> Iterator[Piece]:
        return pieces_of(documents)

    text_survey = survey(read(), ReadCounts(), drop_duplicates=False)
    parts = part(read, text_survey, share)
    train, held_out = join_pieces(parts.train.pieces()), join_pieces(parts.held_out.pieces())
    return Split(train=tuple(train), held_out=tuple(held_out), split_by=parts.split_by)


def part(read: Read, corpus_survey: Survey, share: float) -> DividedCorpus:
    """Hold out `share` of all bytes: whole documents if possible, else the end of each document.

    Documents are taken in the order of their content's hash, so that neither names nor order
    decide, and equal documents are neighbours. A document that would exceed the share is skipped.
    If whole documents give fewer than half of the bytes (for example, of one long book), the last
    `share` of each document is held out instead, cut at the end of a line if possible.

    Args:
        read: reads the corpus from its start.
        corpus_survey: the sizes and hashes of the documents.
        share: of all bytes, to hold out.

    Raises:
        TextError: there is too little text to hold any of it out, or a document has changed.
    """
    chosen = _choose_documents(corpus_survey, share * corpus_survey.n_bytes)
    name = hashlib.sha256(f"{corpus_survey.sha256} {share!r}".encode()).hexdigest()
    if chosen is not None:
        read_documents = partial(_read_documents, read, corpus_survey)
        train, held_out = (
            CorpusSide(corpus_survey.sizes[used], partial(read_documents, used))
            for used in (corpus_survey.used & ~chosen, chosen)
        )
        return DividedCorpus(train, held_out, split_by="documents", sha256=name)
    heads, tails = _sizes_of_ends(read, corpus_survey, share)
    if not heads.any() or not tails.any():
        raise TextError("there is too little text to hold any of it out: pass more text")
    read_ends = partial(_read_ends, read, corpus_survey, share)
    return DividedCorpus(
        train=CorpusSide(heads[heads > 0], partial(read_ends, tail=False)),
        held_out=CorpusSide(tails[tails > 0], partial(read_ends, tail=True)),
        split_by="tails",
        sha256=name,
    )


def choose_held_out(groups: Sequence[str], share: float, seed: int) -> npt.NDArray[np.bool_]:
    """True for each example that is held out; examples of one group are on one side.

    Groups are taken in the order of their hash until `share` of all examples is reached, so the
    share is exact to one group. Neither the order of the rows nor other rows change the place of a
    group: if you add rows, only groups near the border change sides.

    Args:
        groups: the group of each example.
        share: of all examples, to hold out.
        seed: of the order.

    Raises:
        TextError: there are fewer than two groups, or one is too large to leave anything.
    """
    digests = b"".join(group_digest(group, seed) for group in groups)
    return choose_by_digest(np.frombuffer(digests, dtype=np.uint8).reshape(-1, 32), share)


def group_digest(group: str, seed: int) -> bytes:
    """The hash of a group, which decides its side."""
    return hashlib.sha256(f"{seed} {group}".encode("utf-8", "surrogatepass")).digest()


def choose_by_digest(digests: npt.NDArray[np.uint8], share: float) -> npt.NDArray[np.bool_]:
    """As `choose_held_out`, from the digest of each example's group, "examples 32".

    Raises:
        TextError: there are fewer than two groups.
    """
    words = np.ascontiguousarray(digests).view(">u8").astype(np.uint64)
    order = np.lexsort(words.T[::-1])
    is_first = np.ones(len(words), dtype=np.bool_)
    is_first[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
    group_of = np.cumsum(is_first) - 1
    counts = np.bincount(group_of) if len(words) else np.zeros(0, dtype=np.int64)
    if len(counts) < 2:
        raise TextError(
            f"{len(words)} examples of {len(counts)} group cannot be divided into training and "
            "held-out examples, because each group belongs to one side: pass rows that differ"
        )
    budget = share * len(words)
    n_chosen = n_groups = 0
    for count in counts[:-1].tolist():  # at least one group stays to train on
        # hold out the group that crosses the border if that comes nearer to the share
        if n_groups and abs(n_chosen + count - budget) >= abs(n_chosen - budget):
            break
        n_groups, n_chosen = n_groups + 1, n_chosen + count
    held_out = np.zeros(len(words), dtype=np.bool_)
    held_out[order[group_of < n_groups]] = True
    return held_out


def _choose_documents(text_survey: Survey, budget: float) -> npt.NDArray[np.bool_] | None:
    """Which whole documents are held out; None if they have fewer than half of the bytes."""
    chosen = np.zeros(len(text_survey.sizes), dtype=np.bool_)
    if not text_survey.documents:
        return None
    smallest = int(text_survey.sizes[text_survey.used].min())
    chosen_bytes = 0
    for index in text_survey.by_digest():
        if chosen_bytes + smallest > budget:
            break  # nothing fits any more
        size = int(text_survey.sizes[index])
        if text_survey.used[index] and chosen_bytes + size <= budget:
            chosen[index] = True
            chosen_bytes += size
    return chosen if chosen.any() and chosen_bytes >= budget / 2 else None


def _read_used(read: Read, text_survey: Survey) -> Iterator[tuple[int, Piece]]:
    """The pieces of all documents in use, each with the place of its document."""
    place = 0
    for piece in read():
        if place >= len(text_survey.used):
            raise changed_error(piece.name)
        if text_survey.used[place]:
            yield place, piece
        place += piece.last
    if place < len(text_survey.used):
        raise changed_error("the text")


def _read_documents(
    read: Read, text_survey: Survey, chosen: npt.NDArray[np.bool_]
) -> Iterator[Piece]:
    content_check = ContentCheck(text_survey)
    for place, piece in _read_used(read, text_survey):
        if chosen[place]:
            content_check.check(place, piece)
            yield piece


def _read_ends(read: Read, text_survey: Survey, share: float, *, tail: bool) -> Iterator[Piece]:
    """The heads of all documents, or the tails, without empty ones."""
    waiting: Piece | None = None
    previous = -1
    for place, in_tail, piece in _cut_documents(read, text_survey, share):
        if in_tail is not tail:
            continue
        if waiting is not None:
            yield replace(waiting, last=place != previous)
        waiting, previous = piece, place
    if waiting is not None:
        yield replace(waiting, last=True)


def _sizes_of_ends(
    read: Read, text_survey: Survey, share: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    sizes = np.zeros((2, len(text_survey.sizes)), dtype=np.int64)
    for place, in_tail, piece in _cut_documents(read, text_survey, share):
        sizes[int(in_tail), place] += len(piece.text.encode())
    return sizes[0], sizes[1]


def _cut_documents(
    read: Read, text_survey: Survey, share: float
) -> Iterator[tuple[int, bool, Piece]]:
    """All documents as stretches: the place, whether the stretch is in the tail, the piece."""
    content_check = ContentCheck(text_survey)
    knife, previous = Knife(0, share), -1
    for place, piece in _read_used(read, text_survey):
        content_check.check(place, piece)
        if place != previous:
            knife = Knife(text_survey.characters.get(place, len(piece.text)), share)
            previous = place
        for in_tail, text in knife.cut(piece.text):
            if text:
                yield place, in_tail, replace(piece, text=text, last=False)


class Knife:
    """Cuts one document of `length` characters that comes in stretches.

    By its share, the tail begins at some character. If one line or more ends in the hundredth of
    the document before it, the tail begins after the last of these lines.
    """

    def __init__(self, length: int, share: float) -> None:
        self._end = length - round(length * share)
        self._start = self._end - length // 100
        self._place = 0
        self._line: str | None = None  # the text after the last line end so far
        self._in_tail = False

    def cut(self, text: str) -> list[tuple[bool, str]]:
        """The parts of the next stretch that certainly belong to the head or to the tail."""
        if self._in_tail:
            return [(True, text)]
        start, end = self._start - self._place, self._end - self._place
        self._place += len(text)
        self._in_tail = end <= len(text)
        line = text.rfind("\n", max(0, start), end) + 1 if end > 0 else 0
        if line:
            pending, self._line = self._line or "", text[line:]
            if self._in_tail:
                return [(False, pending + text[:line]), (True, text[line:])]
            return [(False, pending + text[:line])]
        if self._line is not None:  # another line may end later
            self._line += text
            return [(True, self._line)] if self._in_tail else []
        return [(False, text[:end]), (True, text[end:])] if self._in_tail else [(False, text)]
