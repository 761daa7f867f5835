"""What ranks show each other, and what follows from it; no process is started."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import distributed
from torch.nn import functional as F

from pellucid.json_text import json_text
from pellucid.parallel.collect import Collect, collect
from pellucid.reader import parse_json
from pellucid.vitals.ranks.comparison import RankMarks, differences
from pellucid.vitals.ranks.measures import checksums, paid_and_weight
from pellucid.vitals.ranks.row import RankRow, is_due, row_of, weights_row

SOUND = RankRow(
    step=1,
    weights=[1.0, 2.0],
    gradients=[0.5, 0.25],
    before=2.2,
    arrived=[1.0, 2.0],
    used=[2.0, 1.0],
    texts=[3.0],
    paid=40.0,
    weight=1.0,
    generator=1,
    draws=True,
    rates=[1e-3],
)
OTHER = replace(SOUND, arrived=[3.0, 0.0], texts=[4.0], generator=2)

FAULTS: dict[str, tuple[str | None, dict[str, Any], dict[str, Any]]] = {
    "sound": (None, {}, {}),
    "unshared": ("unshared", {}, {"gradients": [0.5, 0.3], "weights": [1.0, 2.1]}),
    "shared within the step": (None, {}, {"gradients": [0.5, 0.3]}),
    "apart": ("apart", {}, {"weights": [1.0, 2.1]}),
    "equal rows": ("twins", {}, {"texts": [3.0]}),
    "equal draws": ("alike", {}, {"generator": 1}),
    "equal generators that nobody uses": (None, {"draws": False}, {"generator": 1}),
    "divided twice": ("halved", {"used": [1.0, 0.5]}, {}),
    "loss divided too": ("halved", {"weight": 0.5}, {"weight": 0.5}),
    "loss divided, gradients summed": (
        None,
        {"weight": 0.5, "used": [4.0, 2.0]},
        {"weight": 0.5},
    ),
    "summed": ("summed", {"used": [4.0, 2.0]}, {}),
    "clipped": (None, {"used": [1.2, 0.6]}, {}),
    "uneven": ("unweighted", {}, {"paid": 20.0}),
    "uneven and weighted": (None, {"weight": 4 / 3}, {"weight": 2 / 3, "paid": 20.0}),
    "another loss": (None, {}, {"weight": math.nan, "paid": 20.0}),
    "other rates": ("rates_apart", {}, {"rates": [2e-3]}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_of_many_ranks_has_a_mark_of_its_own(name: str) -> None:
    mark, first, second = FAULTS[name]
    marks = RankMarks(["a", "b"], is_divided=True, is_cut=False)
    marks.add([replace(SOUND, **first), replace(OTHER, **second)])
    assert {name for name, m in marks.by_name.items() if m.n_seen} == ({mark} if mark else set())


def test_weights_that_come_together_again_are_averaged_on_purpose() -> None:
    marks = RankMarks(["a", "b"], is_divided=True, is_cut=False)
    apart = replace(OTHER, gradients=[0.5, 0.3], weights=[1.0, 2.1])
    marks.add([SOUND, apart])
    assert marks.is_apart
    assert not marks.averages_weights
    marks.add([replace(SOUND, step=2), replace(OTHER, step=2)])
    assert marks.averages_weights


def test_the_weights_after_the_last_update_are_compared_alone() -> None:
    marks = RankMarks(["a"], is_divided=True, is_cut=False)
    marks.add([weights_row(9, [1.0]), weights_row(9, [1.5])])
    assert [name for name, mark in marks.by_name.items() if mark.n_seen] == ["apart"]
    assert marks.places["apart"] == ["a"]


def test_a_row_travels_as_json() -> None:
    row = replace(SOUND, weight=math.nan, rates=[0.1 + 0.2])
    copy = row_of(parse_json(json_text(row.message()), "row"))
    assert math.isnan(copy.weight)
    assert copy.rates == pytest.approx(row.rates, rel=1e-8)
    assert copy.texts == row.texts


def test_all_ranks_know_which_updates_are_measured() -> None:
    due = [step for step in range(1, 130) if is_due(step)]
    assert due[:13] == [*range(1, 10), 16, 17, 24, 25]
    assert due[-8:] == [56, 57, 64, 65, 96, 97, 128, 129]


def test_values_that_differ_are_named_with_the_first_rank_that_has_them() -> None:
    settings = {
        0: {"versions": {"torch": "2"}, "options": {"eps": "1"}},
        1: {"versions": {"torch": "2"}, "options": {"eps": "1"}},
        2: {"versions": {"torch": "3"}, "options": {"eps": "1", "beta": "2"}},
    }
    assert [(d.kind, d.name, d.rank) for d in differences(settings)] == [
        ("versions", "torch", 2),
        ("options", "beta", 2),
    ]


@pytest.mark.parametrize("factor", [1.0, 0.5, 3.0])
def test_what_a_loss_weighs_is_read_off_its_gradient(factor: float) -> None:
    logits = torch.randn(6, 9, requires_grad=True)
    labels = torch.tensor([1, 2, -100, 4, -100, 0])
    (factor * F.cross_entropy(logits, labels)).backward()
    assert logits.grad is not None
    paid, weight = paid_and_weight(logits.grad, logits.detach(), 1).tolist()
    assert paid == 4
    assert weight == pytest.approx(factor, rel=1e-4)
    (gradient,) = torch.autograd.grad(logits.square().mean(), logits)
    assert math.isnan(float(paid_and_weight(gradient, logits.detach(), 1)[1]))


def test_checksums_are_those_of_rows_in_any_type() -> None:
    rows = torch.randn(3, 4)
    assert torch.equal(checksums(rows)[1:], checksums(rows[1:]))
    assert checksums(rows).unique().numel() == 3
    assert checksums((rows * 9).long()).unique().numel() == 3


def test_all_ranks_meet_or_none_does() -> None:
    store: Any = distributed.HashStore()
    ranks = [Collect(store, rank, 2, "t") for rank in range(2)]
    with ThreadPoolExecutor() as pool:
        calls = [pool.submit(r.meet, "a", {"rank": r.rank}, seconds=30) for r in ranks]
        assert [call.result() for call in calls] == [[{"rank": 0}, {"rank": 1}]] * 2
    assert ranks[0].meet("b", 0, seconds=0.01) is None
    assert ranks[1].meet("b", 1, seconds=30) is None  # it came too late, and hears so at once


def test_posts_are_read_without_waiting() -> None:
    store: Any = distributed.HashStore()
    first, second = (Collect(store, rank, 2, "t") for rank in range(2))
    assert first.posted([1]) == {}
    second.post([1])
    second.post([2])
    assert first.posted([1]) == {1: [2]}


def test_one_process_alone_meets_nobody() -> None:
    assert collect("model") is None
