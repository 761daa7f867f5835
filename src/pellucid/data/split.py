"""Which text is held out: by document where there are enough of them, the same every time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pellucid.data.documents import Document, Piece, ReadCounts, pieces_of, whole
from pellucid.data.survey import ContentCheck, Survey, changed, survey
from pellucid.errors import TextError

#: Reads a corpus from its start, every time the same.
Read = Callable[[], Iterable[Piece]]


@dataclass(frozen=True, slots=True)
class CorpusSide:
    """One side of a split: how many bytes each of its documents has, and their pieces, again and
    again.
    """

    sizes: npt.NDArray[np.int64]
    pieces: Callable[[], Iterator[Piece]]

    @property
    def documents(self) -> int:
        """How many there are."""
        return len(self.sizes)

    @property
    def n_bytes(self) -> int:
        """All bytes of them."""
        return int(self.sizes.sum())


@dataclass(frozen=True, slots=True)
class DividedCorpus:
    """Training and held-out text as streams, how they were parted ("documents" or "tails"), and a
    hash of all that decides what is in them.
    """

    train: CorpusSide
    held_out: CorpusSide
    by: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Split:
    """The same with all texts in memory."""

    train: tuple[Document, ...]
    held_out: tuple[Document, ...]
    by: str


def split(documents: Sequence[Document], share: float) -> Split:
    """Documents that are in memory, parted as `part` does.

    Raises:
        TextError: there is too little text to hold anything out.
    """

    def read() -> Iterator[Piece]:
        return pieces_of(documents)

    text_survey = survey(read(), ReadCounts(), drop_duplicates=False)
    parts = part(read, text_survey, share)
    train, held_out = whole(parts.train.pieces()), whole(parts.held_out.pieces())
    return Split(train=tuple(train), held_out=tuple(held_out), by=parts.by)


def part(read: Read, found: Survey, share: float) -> DividedCorpus:
    """Hold out whole documents for `share` of all bytes; the ends of the texts if that cannot be.

    Documents are taken in the order of their content's hash, so neither their names nor their order
    decide, and equal documents lie next to each other. One that would overshoot the share is passed
    over. If fewer than half the wanted bytes are found (one long book, say), the last `share` of
    each document is held out instead, cut at a line's end where there is one.

    Raises:
        TextError: there is too little text to hold anything out, or a document is not what it was.
    """
    chosen = _chosen(found, share * found.n_bytes)
    name = hashlib.sha256(f"{found.sha256} {share!r}".encode()).hexdigest()
    if chosen is not None:
        train, held_out = found.used & ~chosen, chosen
        return DividedCorpus(
            train=CorpusSide(found.sizes[train], lambda: _whole_ones(read, found, train)),
            held_out=CorpusSide(found.sizes[held_out], lambda: _whole_ones(read, found, held_out)),
            by="documents",
            sha256=name,
        )
    heads, tails = _sizes_of_ends(read, found, share)
    if not heads.any() or not tails.any():
        raise TextError("there is too little text to hold any of it out: pass more")
    return DividedCorpus(
        train=CorpusSide(heads[heads > 0], lambda: _ends(read, found, share, tail=False)),
        held_out=CorpusSide(tails[tails > 0], lambda: _ends(read, found, share, tail=True)),
        by="tails",
        sha256=name,
    )


def choose_held_out(groups: Sequence[str], share: float, seed: int) -> npt.NDArray[np.bool_]:
    """True for each example that is held out; examples of one group are on one side.

    Groups are taken in the order of their hash until `share` of all examples is reached, so that
    the share is exact to one group. Neither the order of the rows nor other rows change a group's
    place in this order: if you add rows, only groups near the border change sides.

    Args:
        groups: the group of each example.
        share: of the examples that are to be held out.
        seed: of the order.

    Raises:
        TextError: there are fewer than two groups, or one is too large to leave anything.
    """
    digests = b"".join(group_digest(group, seed) for group in groups)
    return choose_by_digest(np.frombuffer(digests, dtype=np.uint8).reshape(-1, 32), share)


def group_digest(group: str, seed: int) -> bytes:
    """The hash of a group, by which examples are divided."""
    return hashlib.sha256(f"{seed} {group}".encode("utf-8", "surrogatepass")).digest()


def choose_by_digest(digests: npt.NDArray[np.uint8], share: float) -> npt.NDArray[np.bool_]:
    """As `choose_held_out`, from the digest of each example's group, "examples 32".

    Raises:
        TextError: there are fewer than two groups.
    """
    words = np.ascontiguousarray(digests).view(">u8").astype(np.uint64)
    order = np.lexsort(words.T[::-1])
    begins = np.ones(len(words), dtype=np.bool_)
    begins[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
    group_of = np.cumsum(begins) - 1
    counts = np.bincount(group_of) if len(words) else np.zeros(0, dtype=np.int64)
    if len(counts) < 2:
        raise TextError(
            f"{len(words)} examples of {len(counts)} group cannot be divided into training and "
            "held-out examples without one being on both sides: pass rows that differ"
        )
    budget = share * len(words)
    n_chosen = n_groups = 0
    for count in counts[:-1].tolist():  # at least one is left to train on
        # the group that crosses the border is taken if that comes nearer to the share
        if n_groups and abs(n_chosen + count - budget) >= abs(n_chosen - budget):
            break
        n_groups, n_chosen = n_groups + 1, n_chosen + count
    held_out = np.zeros(len(words), dtype=np.bool_)
    held_out[order[group_of < n_groups]] = True
    return held_out


def _chosen(text_survey: Survey, budget: float) -> npt.NDArray[np.bool_] | None:
    """Which documents are held out whole; None where they are fewer than half the wanted bytes."""
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


def _used(read: Read, text_survey: Survey) -> Iterator[tuple[int, Piece]]:
    """The pieces of all documents that are used, with the places of these, and no other pieces."""
    place = 0
    for piece in read():
        if place >= len(text_survey.used):
            raise changed(piece.name)
        if text_survey.used[place]:
            yield place, piece
        place += piece.last
    if place < len(text_survey.used):
        raise changed("the text")


def _whole_ones(read: Read, text_survey: Survey, chosen: npt.NDArray[np.bool_]) -> Iterator[Piece]:
    again = ContentCheck(text_survey)
    for place, piece in _used(read, text_survey):
        if chosen[place]:
            again.check(place, piece)
            yield piece


def _ends(read: Read, text_survey: Survey, share: float, *, tail: bool) -> Iterator[Piece]:
    """The heads of all documents, or the tails; those that are empty are none."""
    waiting: Piece | None = None
    previous = -1
    for place, in_tail, piece in _cut(read, text_survey, share):
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
    for place, in_tail, piece in _cut(read, text_survey, share):
        sizes[int(in_tail), place] += len(piece.text.encode())
    return sizes[0], sizes[1]


def _cut(read: Read, text_survey: Survey, share: float) -> Iterator[tuple[int, bool, Piece]]:
    """Every document in its place as stretches, each with whether it is of the tail."""
    again = ContentCheck(text_survey)
    knife, previous = _Knife(0, share), -1
    for place, piece in _used(read, text_survey):
        again.check(place, piece)
        if place != previous:
            knife = _Knife(text_survey.characters.get(place, len(piece.text)), share)
            previous = place
        for in_tail, text in knife.cut(piece.text):
            if text:
                yield place, in_tail, Piece(piece.name, text, last=False)


class _Knife:
    """Cuts one document of `length` characters that comes in stretches.

    The tail begins behind the last line's end in the hundredth of the document before it would
    begin by its share; where there is none, by its share.
    """

    def __init__(self, length: int, share: float) -> None:
        self._end = length - round(length * share)
        self._start = self._end - length // 100
        self._place = 0
        self._line: str | None = None  # what stands behind the last line's end that was met
        self._in_tail = False

    def cut(self, text: str) -> list[tuple[bool, str]]:
        """The next stretch, as far as it is known where it belongs."""
        if self._in_tail:
            return [(True, text)]
        start, end = self._start - self._place, self._end - self._place
        self._place += len(text)
        self._in_tail = end <= len(text)
        line = text.rfind("\n", max(0, start), end) + 1 if end > 0 else 0
        if line:
            held, self._line = self._line or "", text[line:]
            if self._in_tail:
                return [(False, held + text[:line]), (True, text[line:])]
            return [(False, held + text[:line])]
        if self._line is not None:  # another line's end may come, or none
            self._line += text
            return [(True, self._line)] if self._in_tail else []
        return [(False, text[:end]), (True, text[end:])] if self._in_tail else [(False, text)]
