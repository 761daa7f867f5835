"""A frozen embedding as it was drawn, and others that were trained before."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from pellucid.diagnosis import diagnose
from pellucid.diagnosis.history.weight_shares import is_table_as_drawn
from support.courses import healthy


class Reader(nn.Module):
    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.table = nn.Embedding.from_pretrained(weights, freeze=True)


def normal(rows: int = 600, features: int = 64, seed: int = 0) -> Tensor:
    return torch.randn(rows, features, generator=torch.Generator().manual_seed(seed)) * 0.02


def trained(seed: int) -> Tensor:
    """Numbers to which training has added one direction, as that of frequent tokens."""
    draws = torch.Generator().manual_seed(seed)
    direction, weight = torch.randn(64, generator=draws), torch.randn(600, generator=draws)
    return normal(seed=seed) + 0.02 * weight[:, None] * direction


@pytest.mark.parametrize("seed", range(3))
def test_random_numbers_are_told_from_trained_ones(seed: int) -> None:
    uniform = torch.rand(600, 64, generator=torch.Generator().manual_seed(seed)) - 0.5
    assert is_table_as_drawn(Reader(normal(seed=seed)))
    assert is_table_as_drawn(Reader(normal(5000, 512, seed)))
    assert is_table_as_drawn(Reader(uniform))
    assert is_table_as_drawn(Reader(trained(seed))) is False
    assert is_table_as_drawn(Reader(torch.eye(64))) is False
    assert is_table_as_drawn(Reader(torch.ones(600, 64))) is None
    assert is_table_as_drawn(Reader(normal(15))) is None
    learning = Reader(normal(seed=seed))
    learning.table.weight.requires_grad_(True)
    assert is_table_as_drawn(learning) is None
    assert is_table_as_drawn(nn.Linear(4, 4)) is None
    places = nn.Embedding.from_pretrained(normal(32))
    assert is_table_as_drawn(nn.ModuleList([places, Reader(trained(seed))])) is False


@pytest.mark.parametrize(("is_random", "codes"), [(True, ["GRD003"]), (False, []), (None, [])])
def test_a_new_model_with_a_frozen_random_embedding_is_told_so(
    is_random: bool | None, codes: list[str]
) -> None:
    course = healthy()
    facts = replace(course.facts, random_table=is_random, frozen=0.1)
    assert [finding.code for finding in diagnose(replace(course, facts=facts))] == codes
    facts = replace(facts, adapted=True)
    assert diagnose(replace(course, facts=facts)) == []


@pytest.mark.parametrize(("is_random", "codes"), [(False, []), (None, ["GRD003"])])
def test_a_model_with_a_frozen_embedding_that_was_trained_is_not_new(
    is_random: bool | None, codes: list[str]
) -> None:
    course = healthy()
    facts = replace(course.facts, random_table=is_random, frozen=0.9, frozen_body=True)
    assert [finding.code for finding in diagnose(replace(course, facts=facts))] == codes
