"""Vectors of rows: whether they become alike, and whether partners are near each other."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from pellucid.vitals.ledger import row_vectors
from pellucid.vitals.ledger.batch_rows import Rows
from pellucid.vitals.ledger.row_vectors import RowVectors

ROWS, WIDTH = 8, 48


def vectors(seed: int, rows: int = ROWS, width: int = WIDTH) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def _rows(ids: Tensor) -> Rows:
    return ids, None


def signs_of(*calls: Tensor, rows: int = ROWS) -> dict[str, float]:
    taken = RowVectors()
    for call in calls:
        taken.add(call, rows)
    return {id: float(value) for id, value in taken.take_signs().items()}


def test_vectors_that_become_alike_keep_little_of_their_spread() -> None:
    apart, alike = vectors(0), torch.ones(ROWS, WIDTH) + 0.1 * vectors(1)
    signs = signs_of(apart, *[alike] * 8)
    assert 0.005 < signs["vectors.spread"] < 0.02
    assert signs["vectors.kept"] < 0.05
    spreading = signs_of(alike, *[apart] * 8)
    assert spreading["vectors.kept"] > 50
    assert spreading["vectors.spread"] == pytest.approx(1, abs=0.1)


def test_the_spread_is_1_less_the_mean_cosine_of_two_rows() -> None:
    units = torch.nn.functional.normalize(vectors(2), dim=-1)
    cosines = (units @ units.T)[~torch.eye(ROWS, dtype=torch.bool)]
    assert float(row_vectors.spread_of(units)) == pytest.approx(1 - float(cosines.mean()), abs=1e-5)


@pytest.mark.parametrize("first", [0, 1])
def test_partners_are_found_in_every_other_call(first: int) -> None:
    calls = [call for seed in range(4) for call in (vectors(seed), vectors(seed) + 0.1)]
    assert signs_of(*calls[first:])["vectors.matched"] == 1
    strangers = [vectors(seed) for seed in range(8)]
    assert signs_of(*strangers)["vectors.matched"] <= 0.25


def test_pages_are_apart_but_the_first_call_is_remembered() -> None:
    taken = RowVectors()
    taken.add(vectors(0), ROWS)
    assert set(taken.take_signs()) == {"targets.vectors", "vectors.spread", "vectors.kept"}
    assert taken.take_signs() == {}
    taken.add(torch.ones(ROWS, WIDTH) + 0.01 * vectors(1), ROWS)
    assert float(taken.take_signs()["vectors.kept"]) < 0.01


def test_other_outputs_are_no_vectors_of_rows() -> None:
    assert signs_of(vectors(0, width=31)) == {}
    assert signs_of(vectors(0, width=32))["targets.vectors"] == ROWS
    assert signs_of(vectors(0), rows=ROWS - 1) == {}
    assert signs_of(torch.zeros(ROWS, 4, WIDTH)) == {}
    assert signs_of(torch.zeros(ROWS, WIDTH, dtype=torch.long)) == {}
    assert signs_of(vectors(0, rows=3), rows=3) == {"targets.vectors": 3}
    many = signs_of(*[vectors(0, rows=100)] * 3, rows=100)
    assert many["targets.vectors"] == 100
    assert many["vectors.matched"] == 1


def test_of_a_tuple_the_first_two_vectors_are_partners() -> None:
    taken = RowVectors()
    for seed in range(4):
        anchor, other = vectors(seed), vectors(seed + 9)
        taken.add((anchor, anchor + 0.1, other), ROWS)
    assert float(taken.take_signs()["vectors.matched"]) == 1


def test_partners_share_words_and_strangers_do_not() -> None:
    taken = RowVectors()

    def told(shift: int) -> dict[str, float]:
        for seed in range(16):
            draws = torch.Generator().manual_seed(seed)
            texts = torch.randint(300, (ROWS, 12), generator=draws)
            partners = texts[:, 4:].roll(shift, 0)
            for ids in (texts, partners, texts.flip(0)):  # the third is no partner of both
                taken.add(vectors(seed), ROWS, partial(_rows, ids))
            taken.end_update()
        return {id: float(value) for id, value in taken.take_signs().items()}

    signs = told(0)
    assert (signs["vectors.told"], signs["vectors.told_rows"]) == (1.0, 128.0)
    assert told(3)["vectors.told"] == pytest.approx(0.5, abs=0.12)


def test_calls_of_two_updates_are_no_partners() -> None:
    taken = RowVectors()
    for seed in range(8):
        taken.add(vectors(seed), ROWS, partial(_rows, torch.arange(ROWS * 12).view(ROWS, 12)))
        taken.end_update()
    assert "vectors.told" not in taken.take_signs()
