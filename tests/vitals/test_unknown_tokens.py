"""An id that comes anywhere is told from words, letters, spaces and rows without any order."""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.vitals.ledger.unknown_tokens import UnknownTokens

ROWS, TIME, BATCHES, VOCAB, UNKNOWN = 8, 40, 12, 2000, 1


def words(draws: torch.Generator) -> Tensor:
    """Rows in which frequent words, ids below 10, come at every third place."""
    ids = torch.randint(10, VOCAB, (ROWS, TIME), generator=draws)
    frequent = torch.randint(2, 10, (ROWS, TIME), generator=draws)
    return torch.where(torch.arange(TIME) % 3 == 0, frequent, ids)


def shares(*batches: Tensor, real: Tensor | None = None) -> float:
    tokens = UnknownTokens()
    for ids in batches:
        tokens.add((ids, real))
    return float(tokens.take_signs()["batch.unknown"])


def drawn() -> list[Tensor]:
    draws = torch.Generator().manual_seed(0)
    return [words(draws) for _ in range(BATCHES)]


def strewn(share: float) -> list[Tensor]:
    """The same rows, in which so many of the words are unknown."""
    draws = torch.Generator().manual_seed(1)
    return [
        ids.masked_fill(torch.rand(ids.shape, generator=draws) < share, UNKNOWN) for ids in drawn()
    ]


def test_unknown_words_have_their_share() -> None:
    for share in (0.12, 0.3):
        assert abs(shares(*strewn(share)) - share) < 0.03


def test_texts_have_none() -> None:
    assert shares(*drawn()) == 0
    assert shares(*(ids % 60 for ids in strewn(0.2))) == 0  # few kinds are letters


def test_runs_and_regular_places_are_no_chance() -> None:
    runs = [ids.clone() for ids in drawn()]
    for ids in runs:
        ids[:, 10:16] = UNKNOWN
    assert shares(*runs) == 0
    assert shares(*(ids.masked_fill(torch.arange(TIME) % 6 == 1, UNKNOWN) for ids in drawn())) == 0


def test_rows_without_any_order_are_another_fault() -> None:
    draws = torch.Generator().manual_seed(2)
    chance = torch.arange(1, VOCAB + 1).reciprocal()
    rows = [
        torch.multinomial(chance, ROWS * TIME, replacement=True, generator=draws).view(ROWS, TIME)
        for _ in range(BATCHES)
    ]
    assert shares(*rows) == 0


def test_padding_is_left_out() -> None:
    real = torch.arange(TIME).expand(ROWS, TIME) < 30
    padded = [ids.masked_fill(~real, UNKNOWN) for ids in drawn()]
    assert shares(*padded, real=real) == 0


def test_a_sign_comes_with_new_rows_alone() -> None:
    tokens = UnknownTokens()
    assert tokens.take_signs() == {}
    tokens.add((drawn()[0], None))
    assert tokens.take_signs() == {}  # too few
    for ids in drawn():
        tokens.add((ids, None))
    assert len(tokens.take_signs()) == 1
    assert tokens.take_signs() == {}
