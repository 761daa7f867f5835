"""How often the rows of a batch came before, whole or in large part."""

from __future__ import annotations

import statistics
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from pellucid.vitals.ledger.batch_rows import PARTS, ROWS

#: Two parts of a row that came together in more than such a share of all rows are a template.
_TEMPLATE = 0.25
#: The share of one row in fewer rows says nothing.
_FEWEST_ROWS = 64
#: So many different rows do not come together by chance, however short they are.
_DIFFERENT = 4
#: How many rows there are is known once the next is a new one with such a chance at most.
_NEW = 0.15
#: Rows that are remembered, rows whose parts are, and updates whose counts are.
_MOST_ROWS, _MOST_PAIRED, _MOST_UPDATES = 2**17, 2**15, 2**15
#: Two parts of one row, with what tells which of its parts they are.
_Pair = tuple[int, float, int, float]


class RowCounts:
    """Counts the rows of all updates that were looked at."""

    def __init__(self) -> None:
        #: by the checksum of a row of text: how often it came
        self._rows: Counter[float] = Counter()
        #: by two parts of a row: how often they came together, in so many rows
        self._pairs: Counter[_Pair] = Counter()
        self._n_rows = 0
        #: after each update: how many rows of text there were so far, and how many different ones
        self._sizes = [(0, 0)]
        #: by the checksums of all first rows of a batch: how often they came together
        self._batches: Counter[tuple[float, ...]] = Counter()
        #: the same of short rows too, how many there were, and the most of one
        self._all_rows: Counter[float] = Counter()
        self._n_all = self._n_of_one = 0

    def share_of_one(self, texts: Sequence[float]) -> float:
        """Add the rows of an update, short ones too; the share of one row in all so far.

        0 as long as they are few.

        Args:
            texts: The checksums of the rows.
        """
        if len(self._all_rows) < _MOST_ROWS:
            self._all_rows.update(texts)
            self._n_all += len(texts)
            self._n_of_one = max(self._n_of_one, *(self._all_rows[text] for text in texts))
        return self._n_of_one / self._n_all if self._n_all >= _FEWEST_ROWS else 0.0

    def add_batch(self, texts: Sequence[float]) -> float:
        """How often these rows came together before, in this order: no chance, if they differ.

        Args:
            texts: The checksums of an update's rows.
        """
        batch = tuple(texts)
        times = self._batches[batch] if len(set(batch)) >= _DIFFERENT else 0
        if len(self._batches) < _MOST_ROWS:
            self._batches[batch] += 1
        return float(times)

    def add(self, numbers: Mapping[str, float]) -> float:
        """How often the rows of an update came before, as a mean; or their parts, as a median.

        Args:
            numbers: The statistics of the update.
        """
        texts, rows = texts_of(numbers), _pairs_of(numbers)
        times = statistics.fmean(self._rows[text] for text in texts)
        if rows:
            times = max(times, statistics.median(map(self._count_pairs, rows)))
        if len(self._rows) < _MOST_ROWS:
            self._rows.update(texts)
            if len(self._sizes) < _MOST_UPDATES:
                self._sizes.append((self._sizes[-1][0] + len(texts), len(self._rows)))
        if self._n_rows < _MOST_PAIRED:
            self._pairs.update(pair for pairs in rows for pair in pairs)
            self._n_rows += len(rows)
        return times

    def updates_an_epoch(self) -> float:
        """In how many updates each row comes once, at most; 0 while too many rows are new.

        The last third of the rows says how likely a new one is: a share of k of n that were new
        comes, with 95%, from a chance below about (k + 3) / n.
        """
        n, n_different = self._sizes[-1]
        n_before, n_different_before = self._sizes[bisect(self._sizes, (2 * n // 3, n)) - 1]
        n_late = n - n_before
        chance = (n_different - n_different_before + 3) / max(1, n_late)
        n_rows = n_different / (1 - chance) if chance <= _NEW else 0.0
        return n_rows * (len(self._sizes) - 1) / n if n else 0.0

    def _count_pairs(self, pairs: Sequence[_Pair]) -> float:
        """How often two parts of a row came together, as a median over all pairs of its parts.

        One part alone comes again by chance where tokens have few kinds. Windows of one text that
        overlap share several. 0 of a template.
        """
        counts = [self._pairs[pair] for pair in pairs]
        return statistics.median(counts) if max(counts) <= _TEMPLATE * self._n_rows else 0.0


def texts_of(numbers: Mapping[str, float]) -> list[float]:
    """The checksums of an update's rows of text, in order."""
    texts = (numbers[f"text{i}"] for i in range(ROWS))
    return [text for text in texts if text]


def _pairs_of(numbers: Mapping[str, float]) -> list[list[_Pair]]:
    """The pairs of parts of each row of an update (see `gram_checksums`)."""
    rows = [[numbers.get(f"gram{i * PARTS + k}", 0.0) for k in range(PARTS)] for i in range(ROWS)]
    return [
        [(k, row[k], m, row[m]) for k, m in combinations(range(PARTS), 2)]
        for row in rows
        if all(row)
    ]
