"""Examples made by hand; each token shows where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.data import Examples, Ragged


@dataclass(frozen=True)
class Example:
    """What the store takes."""

    ids: Mapping[str, Sequence[int]]
    row: int
    text: str = "{}"


def ragged(lists: Iterable[Sequence[int]]) -> Ragged:
    rows = [list(row) for row in lists]
    starts = np.cumsum([0, *(len(row) for row in rows)])[:-1]
    return Ragged(np.array([n for row in rows for n in row], dtype=np.int64), starts)


def examples_of(columns: Mapping[str, Sequence[Sequence[int]]]) -> Examples:
    n = len(next(iter(columns.values())))
    ragged_columns = {name: ragged(lists) for name, lists in columns.items()}
    return Examples(ragged_columns, np.arange(n) + 1)


def answers(lengths: Sequence[int], prompts: Sequence[int] | None = None) -> Examples:
    """Examples of these lengths; token `place` of example `e` is 1000 (e + 1) + place.

    The first `prompts[e]` tokens, or the first alone, are not supervised.
    """
    first = prompts or [1] * len(lengths)
    return examples_of(
        {
            "ids": [[1000 * (e + 1) + place for place in range(n)] for e, n in enumerate(lengths)],
            "supervised": [
                [int(place >= first[e]) for place in range(n)] for e, n in enumerate(lengths)
            ],
        }
    )
