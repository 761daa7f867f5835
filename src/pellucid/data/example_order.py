"""The order in which examples are seen: a pure function of a seed and a position.

Comes in: examples. Goes out: batches. Nothing here holds state: the place in the data is one whole
number, the rows that were seen, so that a resumed run takes up exactly where the other stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pellucid.batches import IGNORED, TokenBatch
from pellucid.data.collate import Collation, with_targets
from pellucid.data.packing import pack
from pellucid.data.store import Examples
from pellucid.errors import TextError
from pellucid.typed import from_numpy

Indices = npt.NDArray[np.int64]
B = TypeVar("B")

#: How much a length is made longer by chance, at most, before examples are sorted by it.
_BLUR = 0.1


class Packed:
    """Several examples in one row of `context_length`, shuffled anew each epoch, each seen once.

    `documents` numbers the examples of a row from 1 on; what fills it up has the number 0. The
    first token of an example is never the target of the one before.

    Which lengths lie together is found once, for all examples (`pack`), so that every epoch has the
    same number of rows. Which examples of a length take its places, and the order of the rows, are
    drawn anew.

    Raises:
        TextError: an example is longer than a row.
    """

    def __init__(self, examples: Examples, *, context_length: int, pad_id: int, seed: int) -> None:
        self._examples = examples
        self._context_length = context_length
        self._pad_id = pad_id
        self._seed = seed
        self._lengths = examples.columns["ids"].lengths
        self._packing = pack(self._lengths, context_length)
        self.rows_per_epoch = self._packing.rows
        self._epoch = lru_cache(maxsize=2)(self._shuffled)

    @property
    def tokens_per_row(self) -> float:
        """How many tokens of examples a row has, on average."""
        return float(self._lengths.sum()) / self.rows_per_epoch

    @property
    def filled(self) -> float:
        """The share of all places of a row that is taken by examples."""
        return self.tokens_per_row / self._context_length

    def batch(self, position: int, n_rows: int) -> TokenBatch:
        """The rows from `position` on, counted over all epochs."""
        ids = np.full((n_rows, self._context_length), self._pad_id, dtype=np.int64)
        targets = np.full_like(ids, IGNORED)
        documents = np.zeros_like(ids)
        for row in range(n_rows):
            end = 0
            for number, index in enumerate(self._examples_of(position + row), start=1):
                tokens, token_targets = with_targets(self._examples, int(index))
                start, end = end, end + len(tokens)
                ids[row, start:end] = tokens
                targets[row, start:end] = token_targets
                documents[row, start:end] = number
        return TokenBatch(
            ids=from_numpy(ids),
            targets=from_numpy(targets),
            documents=from_numpy(documents),
            n_supervised=int((targets != IGNORED).sum()),
        )

    def _examples_of(self, position: int) -> Indices:
        epoch, row = divmod(position, self.rows_per_epoch)
        rows, taken_by = self._epoch(epoch)
        starts = self._packing.starts
        return taken_by[self._packing.places[starts[rows[row]] : starts[rows[row] + 1]]]

    def _shuffled(self, epoch: int) -> tuple[Indices, Indices]:
        random = np.random.Generator(np.random.Philox(key=[self._seed, epoch]))
        rows = random.permutation(self.rows_per_epoch)
        # lengths fall as those of the places do; examples of one length change places
        taken_by = np.lexsort((random.permutation(len(self._lengths)), -self._lengths))
        return rows, taken_by


class Bucketed(Generic[B]):
    """Examples of about the same length together, shuffled anew each epoch, each seen once.

    All examples are sorted by their length, made up to a tenth longer by chance; neighbours become
    groups of `rows_at_once`, and the groups come in an order drawn at random. Groups begin at
    multiples of `rows_at_once` over all epochs, so that calls for so many rows take whole groups;
    those at the ends of an epoch are smaller.
    """

    def __init__(
        self, examples: Examples, collation: Collation[B], *, rows_at_once: int, seed: int
    ) -> None:
        if not len(examples):
            raise TextError("there are no examples to learn from: pass more rows")
        self._examples = examples
        self._collation = collation
        self._rows_at_once = rows_at_once
        self._seed = seed
        self._lengths = collation.lengths(examples)
        self.rows_per_epoch = len(examples)
        self._epoch = lru_cache(maxsize=2)(self._shuffled)

    @property
    def tokens_per_row(self) -> float:
        """How many tokens an example has, on average; what fills up is not counted."""
        return float(self._lengths.mean())

    def batch(self, position: int, n_rows: int) -> B:
        """The examples from `position` on, counted over all epochs."""
        epochs, rows = np.divmod(np.arange(position, position + n_rows), self.rows_per_epoch)
        chosen = [self._epoch(int(epoch))[rows[epochs == epoch]] for epoch in np.unique(epochs)]
        return self._collation.batch(self._examples, np.concatenate(chosen))

    def _shuffled(self, epoch: int) -> Indices:
        random = np.random.Generator(np.random.Philox(key=[self._seed, epoch]))
        n, size = self.rows_per_epoch, self._rows_at_once
        blurred = self._lengths * (1 + _BLUR * random.random(n))
        by_length = np.lexsort((random.permutation(n), blurred))
        first = min(n, -epoch * n % size)
        sizes = np.array([s for s in (first, *[size] * ((n - first) // size)) if s], dtype=np.int64)
        if remainder := n - int(sizes.sum()):
            sizes = np.append(sizes, remainder)
        # group t of the epoch is cut from what is sorted at the place that it has in `turns`
        turns = random.permutation(len(sizes))
        ends = np.cumsum(sizes[turns])
        begins = ends - sizes[turns]
        groups = [by_length[begins[place] : ends[place]] for place in np.argsort(turns)]
        return np.concatenate([random.permutation(group) for group in groups])


def in_turn(examples: Examples, collation: Collation[B], n_rows: int) -> Iterator[B]:
    """Every example exactly once, the shortest first, in batches: for evaluation."""
    by_length = np.argsort(collation.lengths(examples), kind="stable")
    for first in range(0, len(by_length), n_rows):
        yield collation.batch(examples, by_length[first : first + n_rows])
