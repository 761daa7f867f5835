"""Documents of any length and number as token ids, a bounded number of them in memory.

The library encodes a batch on all processors and lets go of Python's lock meanwhile. So a few
threads of our own keep it busy while this one reads on and writes. What comes out depends neither
on the number of processors nor on how texts fell into batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.data.documents import Piece
from pellucid.data.pieces import LONGEST_PIECE, cut
from pellucid.data.split import CorpusSide
from pellucid.errors import TextError
from pellucid.tokenizers.tokenizer import Tokenizer

#: Told the bytes of each piece, and whether it ends its document.
OnProgress = Callable[[int, bool], None]

#: Characters that are handed to the library at a time.
_BATCH = 2**16
_THREADS = 2
#: Characters of the longest document that is encoded as one, where it may not be cut.
_LONGEST_WHOLE = 2**26


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a document that is encoded at once."""

    text: str
    first: bool
    last: bool


@dataclass(frozen=True, slots=True)
class Encoded:
    """The ids of a stretch, begin and end included; `changed` where they decode to another text."""

    ids: npt.NDArray[Any]
    n_bytes: int
    first: bool
    last: bool
    changed: bool


@dataclass(slots=True, kw_only=True)
class EncodedCounts:
    """What was encoded; `in_changed` where it ends in a document that is changed."""

    stretches: int = 0
    documents: int = 0
    n_bytes: int = 0
    n_tokens: int = 0
    unknown: int = 0
    changed: int = 0
    in_changed: bool = False

    def add(self, each: Encoded, unknown_id: int | None) -> None:
        """Count one more stretch."""
        self.stretches += 1
        self.documents += each.first
        self.n_bytes += each.n_bytes
        self.n_tokens += len(each.ids)
        if unknown_id is not None:
            self.unknown += int(np.count_nonzero(each.ids == unknown_id))
        self.in_changed = each.changed or (self.in_changed and not each.first)
        self.changed += self.in_changed and each.last


def id_type(tokenizer: Tokenizer) -> type[np.uint16] | type[np.uint32]:
    """As wide as the vocabulary needs."""
    return np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32


def encode_pieces(
    pieces: Iterable[Piece], tokenizer: Tokenizer, *, skip: int = 0, watch: OnProgress | None = None
) -> Iterator[Encoded]:
    """The ids of all pieces but the first `skip` stretches, in order.

    Raises:
        TextError: a document is longer than memory may hold, and the tokenizer lets none be cut.
    """
    stretches = stretches_of(pieces, tokenizer)
    for stretch in islice(stretches, skip):
        if watch is not None:
            watch(len(stretch.text.encode()), stretch.last)
    exact = tokenizer.exact
    waiting: deque[Future[list[Encoded]]] = deque()
    with ThreadPoolExecutor(_THREADS) as threads:
        try:
            for batch in _batches(stretches):
                waiting.append(threads.submit(_encoded, batch, tokenizer, exact))
                if len(waiting) > _THREADS:
                    yield from _watched(waiting.popleft().result(), watch)
            while waiting:
                yield from _watched(waiting.popleft().result(), watch)
        finally:
            for future in waiting:
                future.cancel()


def stretches_of(pieces: Iterable[Piece], tokenizer: Tokenizer) -> Iterator[Stretch]:
    """The documents, long ones cut where the tokenizer lets them be."""
    longest = LONGEST_PIECE if tokenizer.ends_at_blanks else _LONGEST_WHOLE
    source = iter(pieces)
    for opening in source:
        first, held = True, ""
        for text in cut(_texts(opening, source), longest):
            if held:
                if longest == _LONGEST_WHOLE:
                    raise _too_long(opening.name)
                yield Stretch(held, first, last=False)
                first = False
            held = text
        yield Stretch(held, first, last=True)


def training_texts(pieces: Iterable[Piece], watch: OnProgress | None = None) -> Iterator[str]:
    """The texts of documents for a tokenizer to be trained on, long ones cut."""
    source = iter(pieces)
    for opening in source:
        for text in cut(_texts(opening, source), LONGEST_PIECE):
            if watch is not None:
                watch(len(text.encode()), False)
            yield text


def hash_pieces(side: CorpusSide, digest: Any) -> Iterator[Piece]:
    """The pieces of a side; `digest` takes in each document with its length before it.

    So it becomes the hash of the texts in their order: names do not matter.
    """
    place, first = 0, True
    for piece in side.pieces():
        if first:
            digest.update(int(side.sizes[place]).to_bytes(8, "little"))
            place += 1
        digest.update(piece.text.encode())
        first = piece.last
        yield piece


def _texts(opening: Piece, pieces: Iterator[Piece]) -> Iterator[str]:
    """The texts of one document, whose first piece was taken already."""
    piece = opening
    yield piece.text
    while not piece.last:
        piece = next(pieces)
        yield piece.text


def _batches(stretches: Iterator[Stretch]) -> Iterator[list[Stretch]]:
    batch: list[Stretch] = []
    size = 0
    for stretch in stretches:
        batch.append(stretch)
        size += len(stretch.text)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _encoded(batch: list[Stretch], tokenizer: Tokenizer, exact: bool) -> list[Encoded]:
    dtype = id_type(tokenizer)
    encodings: list[Encoded] = []
    ids_of = tokenizer.encode_batch([stretch.text for stretch in batch])
    for stretch, ids in zip(batch, ids_of, strict=True):
        changed = not exact and tokenizer.decode(ids.tolist()) != stretch.text
        begin = np.array([tokenizer.begin_id] if stretch.first else [], dtype=dtype)
        end = np.array(tokenizer.closing if stretch.last else [], dtype=dtype)
        encodings.append(
            Encoded(
                ids=np.concatenate([begin, ids.astype(dtype), end]),
                n_bytes=len(stretch.text.encode()),
                first=stretch.first,
                last=stretch.last,
                changed=changed,
            )
        )
    return encodings


def _watched(encodings: list[Encoded], watch: OnProgress | None) -> Iterator[Encoded]:
    for encoding in encodings:
        if watch is not None:
            watch(encoding.n_bytes, encoding.last)
        yield encoding


def _too_long(name: str) -> TextError:
    return TextError(
        f"{name} is longer than {_LONGEST_WHOLE:,} characters, and tokens of this tokenizer may "
        "reach across blanks, so that it cannot be encoded in pieces: cut it into several files or "
        "rows, or choose another tokenizer"
    )
