"""The order of the data: a pure function of a seed and a position.

Nothing here has state or reads data. The position is one whole number, the rows that training has
seen, so a resumed run continues exactly where the other stopped. Three orders turn a position into
indices: windows of a text, examples of similar length, and examples that share a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pellucid.errors import TextError

Indices = npt.NDArray[np.int64]

#: Before sorting, a length grows at random by at most this share.
_BLUR = 0.1


class WindowOrder:
    """Windows of `length` tokens, shuffled anew each epoch, each token in one of them.

    The text is a ring of `n_tokens`. Each epoch turns the ring by a random phase, so that windows
    start at other places. Tokens of the last window that another window already has do not count.
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

    def _shuffle(self, epoch: int) -> tuple[int, Indices]:
        random = _generator(self._seed, epoch)
        phase = int(random.integers(self._length))
        return phase, random.permutation(self.rows_per_epoch)


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
        """The examples from `position` on, counted over all epochs."""
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
        """The examples of the row at `position`, counted over all epochs."""
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

    Place i takes an example of `lengths[i]` tokens, sorted from long to short. The places of row r
    are `places[starts[r] : starts[r + 1]]`.
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
