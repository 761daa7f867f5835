"""Documents of any length and number become token ids, with bounded memory.

The library encodes a batch on all processors and releases Python's lock meanwhile. A few threads of
our own keep it busy while this one reads and writes. The result depends neither on the number of
processors nor on the batches.
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
from pellucid.tokenizers.processes import Encode, encoder
from pellucid.tokenizers.tokenizer import Tokenizer

#: Called with the bytes of each piece, and whether it ends its document.
OnProgress = Callable[[int, bool], None]

#: Characters in a batch for the library.
_BATCH = 2**16
_THREADS = 2
#: Characters of the longest document that the library encodes uncut.
_LONGEST_WHOLE = 2**26


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a document for one call of the library."""

    text: str
    first: bool
    last: bool


@dataclass(frozen=True, slots=True)
class Encoded:
    """The ids of a stretch with begin and end; `is_lossy` if they decode to another text."""

    ids: npt.NDArray[Any]
    n_bytes: int
    first: bool
    last: bool
    is_lossy: bool


@dataclass(slots=True, kw_only=True)
class EncodedCounts:
    """Counts over encoded stretches.

    `lossy` counts documents that decode to another text; `in_lossy` is true if the last stretch
    belongs to one.

    Attributes:
        stretches: how many were encoded.
        documents: that they belong to.
        n_bytes: of their text, as UTF-8.
        n_tokens: of all stretches.
        unknown: tokens that are the unknown token.
    """

    stretches: int = 0
    documents: int = 0
    n_bytes: int = 0
    n_tokens: int = 0
    unknown: int = 0
    lossy: int = 0
    in_lossy: bool = False

    def add(self, encoding: Encoded, unknown_id: int | None) -> None:
        """Count one more stretch."""
        self.stretches += 1
        self.documents += encoding.first
        self.n_bytes += encoding.n_bytes
        self.n_tokens += len(encoding.ids)
        if unknown_id is not None:
            self.unknown += int(np.count_nonzero(encoding.ids == unknown_id))
        self.in_lossy = encoding.is_lossy or (self.in_lossy and not encoding.first)
        self.lossy += self.in_lossy and encoding.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Counts over a text; `changed` counts documents that decode to another text.

    Attributes:
        vocab_size: of the tokenizer.
        tokens: of the text.
        bytes_per_token: the mean.
        unknown: tokens that are the unknown token.
        documents: of the text.
    """

    vocab_size: int
    tokens: int
    bytes_per_token: float
    unknown: int
    documents: int
    changed: int


def id_type(tokenizer: Tokenizer) -> type[np.uint16] | type[np.uint32]:
    """The narrowest type that holds all ids of the vocabulary."""
    return np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32


def encode_pieces(
    pieces: Iterable[Piece],
    tokenizer: Tokenizer,
    *,
    skip: int = 0,
    watch: OnProgress | None = None,
    n_processes: int = 1,
) -> Iterator[Encoded]:
    """The ids of all pieces but the first `skip` stretches, in order.

    Args:
        pieces: the documents.
        tokenizer: encodes them.
        skip: how many stretches an earlier process has encoded.
        watch: is called for every stretch.
        n_processes: how many processes encode; 1 is this one, with all processors.

    Raises:
        TextError: a document is too long for memory, and the tokenizer does not allow cuts.
    """
    stretches = stretches_of(pieces, tokenizer)
    for stretch in islice(stretches, skip):
        if watch is not None:
            watch(len(stretch.text.encode()), stretch.last)
    n_threads = max(_THREADS, n_processes)
    waiting: deque[Future[list[Encoded]]] = deque()
    with encoder(tokenizer, n_processes) as encode, ThreadPoolExecutor(n_threads) as threads:
        try:
            for batch in _batches(stretches):
                waiting.append(threads.submit(_encode_batch, batch, tokenizer, encode))
                if len(waiting) > n_threads:
                    yield from _notify_watch(waiting.popleft().result(), watch)
            while waiting:
                yield from _notify_watch(waiting.popleft().result(), watch)
        finally:
            for future in waiting:
                future.cancel()


def measure(tokenizer: Tokenizer, pieces: Iterable[Piece]) -> Measure:
    """Encode every document, decode it again, and count, without tokens of begin and end."""
    counts = EncodedCounts()
    for encoding in encode_pieces(pieces, tokenizer):
        counts.add(encoding, tokenizer.unknown_id)
    tokens = counts.n_tokens - counts.documents * (1 + len(tokenizer.closing))
    return Measure(
        vocab_size=tokenizer.vocab_size,
        tokens=tokens,
        bytes_per_token=counts.n_bytes / max(tokens, 1),
        unknown=counts.unknown,
        documents=counts.documents,
        changed=counts.lossy,
    )


def stretches_of(pieces: Iterable[Piece], tokenizer: Tokenizer) -> Iterator[Stretch]:
    """The documents; long ones are cut if the tokenizer allows it."""
    longest = LONGEST_PIECE if tokenizer.ends_at_blanks else _LONGEST_WHOLE
    source = iter(pieces)
    for opening in source:
        first, pending = True, ""
        for text in cut(_texts(opening, source), longest):
            if pending:
                if longest == _LONGEST_WHOLE:
                    raise _too_long(opening.name)
                yield Stretch(pending, first, last=False)
                first = False
            pending = text
        yield Stretch(pending, first, last=True)


def training_texts(pieces: Iterable[Piece], watch: OnProgress | None = None) -> Iterator[str]:
    """The texts that a tokenizer trains on; long documents are cut."""
    source = iter(pieces)
    for opening in source:
        for text in cut(_texts(opening, source), LONGEST_PIECE):
            if watch is not None:
                watch(len(text.encode()), False)
            yield text


def hash_pieces(side: CorpusSide, digest: Any) -> Iterator[Piece]:
    """The pieces of a side; each document updates `digest`, with its length first.

    At the end, `digest` is a hash of all texts in order, without their names.
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
    """The texts of one document, whose first piece is `opening`."""
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


def _encode_batch(batch: list[Stretch], tokenizer: Tokenizer, encode: Encode) -> list[Encoded]:
    dtype = id_type(tokenizer)
    encodings: list[Encoded] = []
    texts = encode([stretch.text for stretch in batch])
    for stretch, (ids, is_lossy) in zip(batch, texts, strict=True):
        begin = np.array([tokenizer.begin_id] if stretch.first else [], dtype=dtype)
        end = np.array(tokenizer.closing if stretch.last else [], dtype=dtype)
        encodings.append(
            Encoded(
                ids=np.concatenate([begin, ids.astype(dtype), end]),
                n_bytes=len(stretch.text.encode()),
                first=stretch.first,
                last=stretch.last,
                is_lossy=is_lossy,
            )
        )
    return encodings


def _notify_watch(encodings: list[Encoded], watch: OnProgress | None) -> Iterator[Encoded]:
    for encoding in encodings:
        if watch is not None:
            watch(encoding.n_bytes, encoding.last)
        yield encoding


def _too_long(name: str) -> TextError:
    return TextError(
        f"{name} is longer than {_LONGEST_WHOLE:,} characters, and pellucid cannot encode it in "
        "pieces because tokens of this tokenizer may reach across blanks: split it into several "
        "files or rows, or choose another tokenizer"
    )
