"""Whether the tokens of rows tell the rows' labels."""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.vitals.ledger.label_tokens import (
    LabelledRows,
    join,
    measure,
    share_of_two_texts,
    told_by_place,
    told_by_words,
)

UPDATES, ROWS, TIME = 24, 8, 20


def batches(*, told: bool, key: bool = False, from_end: bool = False) -> list[LabelledRows | None]:
    """Rows of tokens drawn by lot, a third of them from words of the row's class if `told`."""
    draws = torch.Generator().manual_seed(2)
    made: list[LabelledRows | None] = [None]
    for _ in range(UPDATES):
        classes = torch.randint(2, (ROWS,), generator=draws)
        ids = torch.randint(10, 110, (ROWS, TIME), generator=draws)
        words = torch.randint(110, 120, (ROWS, TIME), generator=draws) + 10 * classes[:, None]
        if told:
            ids = torch.where(torch.rand(ROWS, TIME, generator=draws) < 0.3, words, ids)
        lengths = torch.randint(12, TIME + 1, (ROWS,), generator=draws)
        if key:
            place = lengths - 2 if from_end else torch.full((ROWS,), 3)
            ids.scatter_(1, place[:, None], 200 + classes[:, None])
        mask = torch.arange(TIME) < lengths[:, None]
        made.append(LabelledRows((ids * mask, mask), classes))
    return made


def words(rows: list[LabelledRows | None]) -> Tensor:
    table = join(rows)
    assert table is not None
    return told_by_words(table)


def key(rows: list[LabelledRows | None]) -> float:
    table = join(rows)
    assert table is not None
    return float(told_by_place(table))


def test_words_of_a_class_tell_it() -> None:
    share, n_pairs = words(batches(told=True)).tolist()
    assert share > 0.9
    assert 50 < n_pairs < UPDATES * ROWS


def test_words_tell_nothing_of_labels_that_are_drawn_by_lot() -> None:
    share, n_pairs = words(batches(told=False)).tolist()
    assert abs(share - 0.5) < 2 / n_pairs**0.5


def test_rows_that_come_again_tell_nothing() -> None:
    made = batches(told=False)[1:5]
    assert words([batch for batch in made for _ in range(2)])[1] == 0


def test_a_rare_class_alone_tells_nothing() -> None:
    rows = [
        batch and LabelledRows(batch.rows, (torch.rand(ROWS) < 0.1).long())
        for batch in batches(told=False)
    ]
    share, n_pairs = words(rows).tolist()
    assert abs(share - 0.5) < 3 / max(1.0, n_pairs) ** 0.5


def test_a_place_that_spells_the_label_is_seen_from_both_ends() -> None:
    assert key(batches(told=True)) == 0
    assert key(batches(told=True, key=True)) == 1
    assert key(batches(told=False, key=True, from_end=True)) == 1


def test_a_separator_parts_two_texts_and_the_end_of_one_does_not() -> None:
    ids = torch.randint(10, 110, (ROWS, TIME), generator=torch.Generator().manual_seed(3))
    lengths = torch.randint(12, TIME + 1, (ROWS, 1), generator=torch.Generator().manual_seed(4))
    real = torch.arange(TIME) < lengths
    single = ids.scatter(1, lengths - 1, 2)
    pair = single.index_fill(1, torch.tensor(5), 2)
    starts = single.index_fill(1, torch.tensor(0), 2)
    for rows, share in ((single, 0.0), (pair, 1.0), (starts, 0.0), (ids, 0.0)):
        table = join([LabelledRows((rows, real), torch.zeros(ROWS))])
        assert table is not None
        assert share_of_two_texts(table) <= share + 0.2
        assert share_of_two_texts(table) >= share


def test_rows_without_a_class_do_not_count() -> None:
    rows = [
        batch and LabelledRows(batch.rows, torch.full((ROWS,), -100))
        for batch in batches(told=True, key=True)
    ]
    assert words(rows)[1] == 0
    assert key(rows) == 0
    assert join([None]) is None


def test_of_several_labels_the_column_that_differs_most_is_taken() -> None:
    constant, unknown = torch.zeros(ROWS).long(), torch.full((ROWS,), -100)
    told = batches(told=True)
    for columns in ((constant, None, unknown), (None, constant), (unknown, None)):
        rows = [
            batch
            and batch._replace(
                classes=torch.stack([batch.classes if c is None else c for c in columns], 1)
            )
            for batch in told
        ]
        signs, alone = measure(rows), measure(told)
        assert float(signs["targets.told"]) == float(alone["targets.told"]) > 0.9
        assert float(signs["targets.told_rows"]) == float(alone["targets.told_rows"])
    mixed = measure([*told, LabelledRows(told[1].rows, torch.zeros(ROWS, 2))] if told[1] else [])
    assert float(mixed["targets.told_rows"]) == float(measure(told)["targets.told_rows"])
    assert measure([None]) == {}
