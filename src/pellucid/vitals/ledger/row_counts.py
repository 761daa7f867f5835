"""How often the rows of a batch came before, whole or in large part."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from pellucid.vitals.ledger.batch_rows import PARTS, ROWS

#: Rows are of one small text if each part of a row came in such a share of all rows; in more of
#: them it is a template.
_SHARED = 0.05, 0.25
#: Rows that are remembered.
_MOST_ROWS = 2**17


class RowCounts:
    """Counts the rows of all updates that were looked at."""

    def __init__(self) -> None:
        #: by the checksum of a row of text: how often it came
        self._rows: Counter[float] = Counter()
        #: by the number of a part of a row: how often it came, in so many rows
        self._parts: Counter[float] = Counter()
        self._n_rows = 0

    def add(self, numbers: Mapping[str, float]) -> float:
        """How often the rows of an update came before, as a mean; or their parts, as a median.

        Args:
            numbers: The statistics of the update.
        """
        texts, parts = texts_of(numbers), _parts_of(numbers)
        times = statistics.fmean(self._rows[text] for text in texts)
        if parts:
            times = max(times, statistics.median(map(self._count_parts, parts)))
        if len(self._rows) < _MOST_ROWS:
            self._rows.update(texts)
            self._parts.update(part for row_parts in parts for part in row_parts)
            self._n_rows += len(parts)
        return times

    def _count_parts(self, parts: Sequence[float]) -> float:
        """How often each part of a row came, the rarest; 0 if few rows have it, or too many."""
        count = min(self._parts[part] for part in parts)
        low, high = (share * self._n_rows for share in _SHARED)
        return float(count) if low <= count <= high else 0.0


def texts_of(numbers: Mapping[str, float]) -> list[float]:
    """The checksums of an update's rows of text, in order."""
    texts = (numbers[f"text{i}"] for i in range(ROWS))
    return [text for text in texts if text]


def _parts_of(numbers: Mapping[str, float]) -> list[list[float]]:
    """The numbers of the parts of each row of an update (see `gram_checksums`)."""
    rows = [[numbers.get(f"gram{i * PARTS + k}", 0.0) for k in range(PARTS)] for i in range(ROWS)]
    return [[part for part in row if part] for row in rows if any(row)]
