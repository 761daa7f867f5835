"""The summary of rows that became examples, and of rows that did not."""

from __future__ import annotations

import json
from collections import Counter

from pellucid.data.skipped_rows import RowCounts

COUNTS = RowCounts(
    rows=2000,
    examples=1995,
    dropped=Counter({"no answer": 6, "no prompt": 5}),
    first_dropped={
        "no answer": ["row 3", "row 4", "row 8", "row 9", "row 11"],
        "no prompt": ["row 1", "row 2", "row 5", "row 6", "row 7"],
    },
    truncated=4,
    endless=3,
    tokens=8000,
    supervised=2000,
    labels=Counter({0: 7, 2: 9}),
)


def test_counts_are_lines_with_a_share_and_the_first_places() -> None:
    assert COUNTS.lines(["ham", "spam", "news"]) == [
        "2,000 rows, 1,995 examples, 8,000 tokens",
        "2,000 tokens (25%) are to be predicted",
        "dropped 6: no answer (row 3; row 4; row 8; row 9; row 11, ...)",
        "dropped 5: no prompt (row 1; row 2; row 5; row 6; row 7)",
        "truncated 4: longer than the window",
        "3 answers have no end that is learned",
        "the class 'spam' has no example",
    ]
    assert RowCounts(rows=1, examples=1, tokens=6).lines() == ["1 rows, 1 examples, 6 tokens"]


def test_counts_come_back_from_a_file() -> None:
    stored = json.loads(json.dumps(COUNTS.as_stored()))
    assert RowCounts.from_table(stored) == COUNTS
