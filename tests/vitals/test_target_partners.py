"""Targets of an encoder-decoder beside the texts that its encoder reads."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.ledger.target_partners import TargetPartners

ROWS, UPDATES = 8, 24


def batch(seed: int, *, ties: str, width: int = 20) -> tuple[Tensor, Tensor]:
    """Texts, and their targets: of like lengths, or with a token of the text.

    Args:
        seed: Of the batch.
        ties: "lengths", "words", or "" for neither.
        width: Of the ids; shorter rows are filled up with 0.
    """
    draws = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 400, (ROWS, width), generator=draws)
    lengths = torch.randint(4, width + 1, (ROWS,), generator=draws)
    lengths[0] = width
    places = torch.arange(width)
    ids = ids.where(places < lengths[:, None], 0)
    targets = torch.randint(5, 400, (ROWS, width + 3), generator=draws)
    if ties == "words":
        targets[:, 0] = ids[:, 1]
    own = lengths if ties == "lengths" else torch.randint(4, width, (ROWS,), generator=draws)
    return ids, targets.where(torch.arange(width + 3) < own[:, None] + 2, IGNORED)


def signs_of(*, ties: str = "", rolls: int = 0, has_mask: bool = True) -> dict[str, float]:
    partners = TargetPartners()
    for seed in range(UPDATES):
        ids, targets = batch(seed, ties=ties)
        partners.add((ids, ids != 0 if has_mask else None), targets.roll(rolls, 0))
    return {id: float(value) for id, value in partners.take_signs().items()}


@pytest.mark.parametrize("has_mask", [True, False])
@pytest.mark.parametrize(("ties", "sign"), [("lengths", "longer"), ("words", "partner")])
def test_lengths_and_words_tie_targets_to_their_texts(ties: str, sign: str, has_mask: bool) -> None:
    assert signs_of(ties=ties, has_mask=has_mask)[f"targets.{sign}"] > 0.7
    mixed = signs_of(ties=ties, rolls=3, has_mask=has_mask)
    assert abs(mixed[f"targets.{sign}"] - 0.5) < 0.12


def test_rows_and_different_targets_are_counted() -> None:
    signs = signs_of()
    assert signs["targets.partner_rows"] == UPDATES * (ROWS - 1)
    assert 0 < signs["targets.longer_rows"] < UPDATES * (ROWS - 1)
    assert signs["targets.different"] == 1
    partners = TargetPartners()
    ids, _ = batch(0, ties="")
    partners.add((ids, None), torch.tensor([[7, 1]]).expand(ROWS, 2))
    assert float(partners.take_signs()["targets.different"]) == 1 / ROWS
    assert partners.take_signs() == {}


def test_tags_classes_and_numbers_are_no_targets() -> None:
    ids, targets = batch(0, ties="")
    partners = TargetPartners()
    for labels in (ids, targets[:, 0], targets.float(), targets[:3], None):
        partners.add((ids, None), labels)
    partners.add(None, targets)
    assert partners.take_signs() == {}
