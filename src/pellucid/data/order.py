"""The order of the data: a pure function of a seed and a position.

Nothing here has state or reads data. The position is one whole number, the rows that training has
seen, so a resumed run continues exactly where the other stopped. Four orders turn a position into
indices: windows of a text, windows of several texts mixed by weight, examples of similar length,
and examples that share a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pellucid.errors import TextError

Indices = npt.NDArray[np.int64]

#: Before sorting, a length grows at random by at most this share.
_BLUR = 0.1
#: Rows of a block of a mixture. Within one, each text has its share of them, up to one row.
_BLOCK = 1024
#: Windows of an epoch that a table of 512 MiB orders; the order of more is computed.
_TABLE_ROWS = 2**26


class WindowOrder:
    """Windows of `length` tokens, shuffled anew each epoch, each token in one of them.

    Each epoch turns the text, a ring of `n_tokens`, by a random phase, so that windows start at
    other places. Tokens of the last window that another window already has do not count.
    """

    def __init__(self, n_tokens: int, *, length: int, seed: int) -> None:
        self._n_tokens, self._length, self._seed = n_tokens, length, seed
        self.rows_per_epoch = -(-n_tokens // length)
        self._epoch = lru_cache(maxsize=2)(self._shuffle)

    def windows(self, position: int, n_rows: int) -> tuple[Indices, Indices]:
        """The start of each window from `position` on, and how many of its tokens count."""
        epochs, rows = np.divmod(np.arange(position, position + n_rows), self.rows_per_epoch)
        starts = np.empty(n_rows, dtype=np.int64)
        n_counted = np.empty(n_rows, dtype=np.int64)
        for epoch in np.unique(epochs):
            in_epoch = epochs == epoch
            phase, windows = self._epoch(int(epoch))
            chosen = windows[rows[in_epoch]]
            starts[in_epoch] = phase + chosen * self._length
            n_counted[in_epoch] = np.minimum(self._length, self._n_tokens - chosen * self._length)
        return starts, n_counted

    def _shuffle(self, epoch: int) -> tuple[int, Indices | Permutation]:
        random = _generator(self._seed, epoch)
        phase = int(random.integers(self._length))
        n = self.rows_per_epoch
        return phase, random.permutation(n) if n <= _TABLE_ROWS else Permutation(n, random)


class Permutation:
    """A shuffle of `range(n)` without a table: each number is computed from its place.

    Source:
        Luby and Rackoff 1988, six rounds; Black and Rogaway 2002: again until below n.
    """

    def __init__(self, n: int, random: np.random.Generator) -> None:
        self._n, self._bits = n, np.uint64(-(-(n - 1).bit_length() // 2))
        self._keys = random.integers(2**64, size=(6, 2), dtype=np.uint64)

    def __getitem__(self, places: Indices) -> Indices:
        numbers, outside = places.astype(np.uint64), np.ones(len(places), dtype=bool)
        while outside.any():
            left = numbers[outside] >> self._bits
            right = numbers[outside] & ~(~np.uint64(0) << self._bits)
            for added, factor in self._keys:
                hashed = (right + added) * (factor | np.uint64(1))
                hashed = (hashed ^ hashed >> np.uint64(32)) * (added | np.uint64(1))
                left, right = right, left ^ hashed >> (np.uint64(64) - self._bits)
            numbers[outside] = left << self._bits | right
            outside = numbers >= self._n
        return numbers.astype(np.int64)


class Ring(NamedTuple):
    """A text between others: its first token, its number of tokens, and its weight."""

    first: int
    n_tokens: int
    weight: float


class MixedOrder:
    """Windows of several texts, each row from one of them.

    Block b of 1,024 rows has the rows that the weights ask for in the first (b + 1) 1,024 rows,
    less the rows of the blocks before it; a seed and b shuffle them. Each text has a `WindowOrder`
    of its own, so within a text nothing is seen twice before everything is seen once.

    Args:
        rings: the texts.
        length: of a window, in tokens.
        seed: of the order.

    Raises:
        TextError: a text is shorter than one window.
    """

    def __init__(self, rings: Sequence[Ring], *, length: int, seed: int) -> None:
        for number, ring in enumerate(rings, 1):
            if ring.n_tokens < length:
                raise TextError(
                    f"text.corpus.sources: source {number} has {ring.n_tokens:,} tokens to learn "
                    f"from, fewer than one context of {length:,}: pass more text, or leave it out"
                )
        self._rings, self._seed = rings, seed
        weights = np.array([ring.weight for ring in rings], dtype=np.float64)
        self._shares = weights / weights.sum()
        self._orders = [
            WindowOrder(ring.n_tokens, length=length, seed=seed + number)
            for number, ring in enumerate(rings)
        ]
        #: Rows that have as many tokens as all texts together.
        self.rows_per_epoch = sum(order.rows_per_epoch for order in self._orders)
        self._block = lru_cache(maxsize=2)(self._shuffle)

    def windows(self, position: int, n_rows: int) -> tuple[Indices, Indices, Indices, Indices]:
        """The windows from `position` on.

        Returns:
            Starts within texts, tokens that count, the first token and the size of each text.
        """
        windows = np.empty((4, n_rows), dtype=np.int64)
        if len(self._rings) == 1:  # in the order of its own, however large it is
            ring = self._rings[0]
            starts, n_counted = self._orders[0].windows(position, n_rows)
            return starts, n_counted, np.full(n_rows, ring.first), np.full(n_rows, ring.n_tokens)
        blocks, places = np.divmod(np.arange(position, position + n_rows), _BLOCK)
        for block in np.unique(blocks):
            rows = np.flatnonzero(blocks == block)
            sources, before = self._block(int(block))
            first = int(places[rows[0]])
            chosen = sources[places[rows]]
            for source, (ring, order) in enumerate(zip(self._rings, self._orders, strict=True)):
                own_rows = rows[chosen == source]
                if len(own_rows):
                    n_before = before[source] + np.count_nonzero(sources[:first] == source)
                    starts, n_counted = order.windows(int(n_before), len(own_rows))
                    windows[0, own_rows], windows[1, own_rows] = starts, n_counted
                    windows[2, own_rows], windows[3, own_rows] = ring.first, ring.n_tokens
        return windows[0], windows[1], windows[2], windows[3]

    def _shuffle(self, block: int) -> tuple[Indices, Indices]:
        """The text of each row of a block, and how many rows each text had before it."""
        before, after = self._rows_in(block * _BLOCK), self._rows_in((block + 1) * _BLOCK)
        sources = np.repeat(np.arange(len(self._rings)), after - before)
        random = _generator(self._seed, block)
        return random.permutation(sources), before

    def _rows_in(self, n_rows: int) -> Indices:
        """The rounded shares, which never fall: a text has two rows of a block (`Mixture`)."""
        ends = np.floor(np.cumsum(self._shares) * n_rows + 0.5).astype(np.int64)
        ends[-1] = n_rows
        return np.diff(ends, prepend=0)


class BucketOrder:
    """Examples of about the same length together, shuffled anew each epoch, each seen once.

    Each epoch sorts all examples by their length, with up to a tenth added at random. Neighbours
    form groups of `rows_at_once`, and the groups come in random order. Over all epochs, groups
    begin at multiples of `rows_at_once`, so that a call for so many rows takes one group; the first
    and last group of an epoch may be smaller.
    """

    def __init__(self, lengths: Indices, *, rows_at_once: int, seed: int) -> None:
        self._lengths, self._rows_at_once, self._seed = lengths, rows_at_once, seed
        self.rows_per_epoch = len(lengths)
        self._epoch = lru_cache(maxsize=2)(self._shuffle)

    def examples(self, position: int, n_rows: int) -> Indices:
        """The examples from `position` on, n_counted over all epochs."""
        epochs, rows = np.divmod(np.arange(position, position + n_rows), self.rows_per_epoch)
        chosen = [self._epoch(int(epoch))[rows[epochs == epoch]] for epoch in np.unique(epochs)]
        return np.concatenate(chosen)

    def _shuffle(self, epoch: int) -> Indices:
        random = _generator(self._seed, epoch)
        n, size = self.rows_per_epoch, self._rows_at_once
        blurred = self._lengths * (1 + _BLUR * random.random(n))
        by_length = np.lexsort((random.permutation(n), blurred))
        first = min(n, -epoch * n % size)
        sizes = np.array([s for s in (first, *[size] * ((n - first) // size)) if s], dtype=np.int64)
        if remainder := n - int(sizes.sum()):
            sizes = np.append(sizes, remainder)
        # group t of the epoch is the part of the sorted examples at its place in `turns`
        turns = random.permutation(len(sizes))
        ends = np.cumsum(sizes[turns])
        starts = ends - sizes[turns]
        groups = [by_length[starts[place] : ends[place]] for place in np.argsort(turns)]
        return np.concatenate([random.permutation(group) for group in groups])


class PackedOrder:
    """Several examples in one row of `row_length`, shuffled anew each epoch, each seen once.

    `pack` assigns lengths to rows once, so that every epoch has the same number of rows. Each epoch
    shuffles the rows, and which examples of a length take its places.

    Raises:
        TextError: an example is longer than a row.
    """

    def __init__(self, lengths: Indices, *, row_length: int, seed: int) -> None:
        self._lengths, self._seed = lengths, seed
        self._packing = pack(lengths, row_length)
        self.rows_per_epoch = self._packing.rows
        self._epoch = lru_cache(maxsize=2)(self._shuffle)

    def examples(self, position: int) -> Indices:
        """The examples of the row at `position`, n_counted over all epochs."""
        epoch, row = divmod(position, self.rows_per_epoch)
        rows, example_of_place = self._epoch(epoch)
        starts = self._packing.starts
        return example_of_place[self._packing.places[starts[rows[row]] : starts[rows[row] + 1]]]

    def _shuffle(self, epoch: int) -> tuple[Indices, Indices]:
        random = _generator(self._seed, epoch)
        rows = random.permutation(self.rows_per_epoch)
        # sorted by falling length, as the places are; examples of one length are shuffled
        return rows, np.lexsort((random.permutation(len(self._lengths)), -self._lengths))


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Places for examples, and the row of each.

    Place i takes an example of `lengths[i]` tokens, sorted from long to short. Row r has `places`
    from `starts[r]` to `starts[r + 1]`.
    """

    lengths: Indices
    places: Indices
    starts: Indices

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.starts) - 1


def pack(lengths: Indices, row_length: int) -> Packing:
    """Pack lengths into few rows of `row_length`, by best fit decreasing.

    Each example, the longest first, goes into the row where it leaves the least room, or into a new
    row if it fits into none.

    Raises:
        TextError: an example is longer than a row.

    Source:
        Johnson et al. 1974, "Worst-Case Performance Bounds for Simple One-Dimensional Packing
        Algorithms": at most 11/9 of the fewest rows possible, and 4 more.
    """
    if len(lengths) and lengths.max() > row_length:
        raise TextError(
            f"an example has {lengths.max():,} tokens, more than the {row_length:,} of a row: "
            "shorten it, or raise model.context_length"
        )
    falling = np.sort(lengths)[::-1]
    row_of = np.empty(len(falling), dtype=np.int64)
    with_room: dict[int, list[int]] = {}
    rooms = 0  # bit r is 1 if some row has room for r tokens
    rows = 0
    for place, length in enumerate(falling.tolist()):
        fits = rooms >> length
        if fits:
            room = length + (fits & -fits).bit_length() - 1
            row = with_room[room].pop()
            if not with_room[room]:
                rooms &= ~(1 << room)
        else:
            room, row = row_length, rows
            rows += 1
        row_of[place] = row
        with_room.setdefault(room - length, []).append(row)
        rooms |= 1 << (room - length)
    counts = np.bincount(row_of, minlength=rows)
    return Packing(
        lengths=falling,
        places=np.argsort(row_of, kind="stable"),
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )


def _generator(seed: int, epoch: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed, epoch]))
