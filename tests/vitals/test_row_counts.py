"""Windows of a small text are known by their parts; templates and long texts are not."""

from __future__ import annotations

import statistics

import torch
from torch import Tensor

from pellucid.diagnosis.finding import limit
from pellucid.vitals.ledger.batch_rows import PARTS, ROWS, first_rows, gram_checksums, row_checksums
from pellucid.vitals.ledger.row_counts import RowCounts

TIME, UPDATES = 64, 40


def sightings(batches: list[Tensor]) -> list[float]:
    """How often the rows of each batch came before."""
    rows = [first_rows(batch) for batch in batches]
    texts, parts, counts = row_checksums(rows)[:, 1:], gram_checksums(rows), RowCounts()
    tables = [
        {f"text{i}": float(text[i]) for i in range(ROWS)}
        | {f"gram{i}": float(part[i]) for i in range(ROWS * PARTS)}
        for text, part in zip(texts, parts, strict=True)
    ]
    return [counts.add(table) for table in tables]


def windows(text: Tensor, seed: int) -> list[Tensor]:
    draws = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(text) - TIME, (UPDATES, ROWS), generator=draws)
    return [torch.stack([text[s : s + TIME] for s in row]) for row in starts.tolist()]


def test_windows_of_a_small_text_come_again_in_large_part() -> None:
    draws = torch.Generator().manual_seed(0)
    small, large = (torch.randint(90, (n,), generator=draws) for n in (400, 100_000))
    seen = limit("DAT021", "seen")
    assert statistics.median(sightings(windows(small, 1))[-5:]) > seen
    assert max(sightings(windows(large, 2))) == 0


def test_a_template_in_all_rows_is_no_row_that_came_before() -> None:
    draws = torch.Generator().manual_seed(3)
    batches = [torch.randint(90, (ROWS, TIME), generator=draws) for _ in range(UPDATES)]
    template = batches[0][0, :40].clone()
    for batch in batches:
        batch[:, :40] = template
    assert max(sightings(batches)[5:]) == 0


def test_one_row_among_others_is_counted_from_enough_rows_on() -> None:
    counts = RowCounts()
    shares = [counts.share_of_one([1.0, 1.0, 1.0, float(n)]) for n in range(2, 40)]
    assert shares[:15] == [0.0] * 15
    assert shares[15:] == [0.75] * 23
    assert RowCounts().share_of_one([float(n) for n in range(100)]) == 0.01


def test_a_short_row_has_no_parts() -> None:
    assert not gram_checksums([first_rows(torch.ones(ROWS, 4, dtype=torch.long)), None]).any()
