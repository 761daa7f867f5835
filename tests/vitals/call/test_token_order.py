"""Rows of text: which of their places are paid for, in which order they are, by which ids."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pellucid.batches import IGNORED
from pellucid.diagnosis.finding import limit
from pellucid.vitals.call import arguments
from pellucid.vitals.call.alignment import renamed
from pellucid.vitals.call.place_weights import easiness, power_of_p
from pellucid.vitals.call.token_order import (
    interleaving,
    pair_ratio,
    scattered,
    share_of_text,
    target_ratio,
)
from pellucid.vitals.ledger.batch_rows import first_rows, kinship
from pellucid.vitals.ledger.marks import KIN

ROWS, TIME = 8, 64


@cache
def text() -> Tensor:
    """The bytes of a file of Python."""
    return torch.tensor(list(Path(arguments.__file__).read_bytes() * 4))


def windows(seed: int, rows: int = ROWS, time: int = TIME) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(text()) - time, (rows,), generator=draws)
    return torch.stack([text()[start : start + time] for start in starts.tolist()])


def noise(seed: int) -> Tensor:
    return torch.randint(100, (ROWS, TIME), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(8))
def test_in_rows_of_text_neighbours_tell_most_of_each_other(seed: int) -> None:
    rows, bound = windows(seed, 16), limit("DAT009", "interleaved")
    reshaped = rows.t().contiguous().view(rows.shape)
    woven = torch.stack([rows[:8], rows[8:]], 2).flatten(1)  # two texts, token by token
    assert interleaving(rows) < bound
    assert interleaving(rows.flip(1)) < bound
    assert interleaving(reshaped) > bound
    assert interleaving(woven) > bound
    assert interleaving(noise(seed)) == 0
    assert interleaving(rows[:2]) == 0


def test_pairs_of_noise_are_equal_by_chance_alone() -> None:
    assert pair_ratio(noise(0) % 10, 1) == 1
    assert pair_ratio(noise(0)[:, :8], 1) is None


@pytest.mark.parametrize(
    ("paid", "is_known"),
    [
        (lambda rows: rows.clone(), True),
        (lambda rows: only_last(rows), True),
        # a task: one token comes before each answer, there are two answers, or rows are no text
        (lambda rows: only_last(rows.index_fill(1, torch.tensor([-1]), 7)), True),
        (lambda rows: only_last(rows % 2), False),
        (lambda rows: rows.masked_fill(rows >= 0, IGNORED), False),
    ],
    ids=["all", "last", "last of any value", "two answers", "none"],
)
def test_places_that_nothing_tells_from_others_have_a_share(
    paid: Callable[[Tensor], Tensor], is_known: bool
) -> None:
    rows = windows(3, 16)
    targets = paid(rows)
    if int((targets[:, -1] == 7).sum()) == len(rows):
        targets[:, -1] = rows[:, -2]
    share = share_of_text(rows, targets, torch.ones_like(rows, dtype=torch.bool))
    assert (share is not None) == is_known
    marked = rows.clone()
    marked[:, -1] = 61
    is_real = torch.ones_like(rows, dtype=torch.bool)
    assert share_of_text(marked, only_last(rows), is_real) is None
    assert share_of_text(noise(2), only_last(noise(3)), is_real[:ROWS]) is None


def only_last(rows: Tensor) -> Tensor:
    targets = torch.full_like(rows, IGNORED)
    targets[:, -1] = rows[:, -2]
    return targets


def test_the_share_counts_tokens_and_no_padding() -> None:
    rows = windows(4, 16)
    is_real = torch.ones_like(rows, dtype=torch.bool)
    is_real[8:, 32:] = False
    share = share_of_text(rows, only_last(rows).where(is_real, torch.tensor(IGNORED)), is_real)
    assert share == 8 / (8 * 64 + 8 * 32)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (lambda y: y + 1, 1.0),
        (lambda y: (y * 7 + 3) % 131, 1.0),
        (lambda y: y, 0.0),
        (lambda y: y % 16, 0.0),  # classes of tokens
        (lambda y: y.roll(1, 0), 0.0),
    ],
    ids=["offset", "other vocabulary", "same", "classes", "other rows"],
)
def test_targets_are_renamed_if_each_token_has_one_other_id(
    change: Callable[[Tensor], Tensor], value: float
) -> None:
    rows = windows(5, 16)
    targets = change(rows.roll(-1, 1))
    targets[:, -1] = IGNORED
    share = renamed(rows, targets)
    assert share == value if value else share < limit("DAT030", "share")


def test_batches_of_one_vocabulary_are_kin_and_those_of_several_are_not() -> None:
    batches = [windows(seed) for seed in range(8)]
    draws = torch.Generator().manual_seed(0)
    renamed_ids = [torch.randperm(256, generator=draws)[batch] for batch in batches]
    by_row = [
        torch.stack([torch.randperm(256, generator=draws)[row] for row in batch])
        for batch in batches
    ]
    assert bool((kinship([first_rows(batch) for batch in batches]) > KIN).all())
    alone = kinship([first_rows(batch) for batch in renamed_ids])
    assert bool(((alone >= 0) & (alone < KIN)).all())
    # a vocabulary of each row is a task of its own, and two languages are kin to themselves
    assert bool((kinship([first_rows(batch) for batch in by_row]) == -1).all())
    two = [batch if i % 2 else (batch + 128) % 256 for i, batch in enumerate(batches)]
    assert bool((kinship([first_rows(batch) for batch in two]) > KIN).all())
    assert kinship([first_rows(batches[0]), None]).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("pick", "value"),
    [
        (lambda losses: losses.topk(len(losses) // 10, largest=False).values.mean(), 1.0),
        (lambda losses: losses.topk(len(losses) // 10).values.mean(), 0.0),
        (lambda losses: losses[::4].mean(), 0.5),
        (lambda losses: losses.topk(len(losses) * 3 // 4, largest=False).values.mean(), None),
        (torch.mean, None),
    ],
    ids=["easiest", "hardest", "every fourth", "all but the worst", "all"],
)
def test_a_loss_may_pick_its_places_by_how_well_they_know_their_token(
    pick: Callable[[Tensor], Tensor], value: float | None
) -> None:
    ids, draws = windows(6), torch.Generator().manual_seed(0)
    logits = torch.randn(ROWS, TIME, 128, generator=draws, requires_grad=True)
    losses = cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    pick(losses).backward()
    assert logits.grad is not None
    share = easiness(logits.grad, logits.detach(), ids)
    assert share is None if value is None else share == pytest.approx(value, abs=0.2)
    # padding that is not paid for is no text
    assert easiness(logits.grad, logits.detach(), torch.zeros_like(ids)) is None


@pytest.mark.parametrize("divisor", [1.0, 1e4])
def test_a_divided_cross_entropy_weighs_places_alike(divisor: float) -> None:
    ids, draws = windows(7), torch.Generator().manual_seed(0)
    logits = torch.randn(ROWS, TIME, 128, generator=draws, requires_grad=True)
    (cross_entropy(logits.flatten(0, 1), ids.flatten()) / divisor).backward()
    assert logits.grad is not None
    is_plain = torch.ones_like(ids, dtype=torch.bool)
    assert power_of_p(logits.grad, logits.detach(), is_plain) == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_target_comes_with_its_token_more_often_than_by_chance_if_it_belongs_to_it(
    seed: int,
) -> None:
    rows, bound = windows(seed, 16, TIME + 1), limit("DAT009", "tied")
    ids, targets = rows[:, :-1], rows[:, 1:]
    of_other_rows = windows(seed + 100, 16)
    assert (target_ratio(ids, targets) or 0.0) > bound
    assert (target_ratio(ids, of_other_rows) or 0.0) < bound
    assert target_ratio(ids[:2], targets[:2]) is None
    assert target_ratio(ids, targets[:, 1:]) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_masked_token_belongs_to_the_one_before_its_mask(seed: int) -> None:
    rows, bound = windows(seed, 16), limit("DAT009", "tied")
    is_masked = torch.rand(rows.shape, generator=torch.Generator().manual_seed(seed)) < 0.15
    ids = rows.masked_fill(is_masked, 3)
    of_other_rows = windows(seed + 100, 16)
    assert (target_ratio(ids, rows.masked_fill(~is_masked, IGNORED)) or 0.0) > bound
    strange = target_ratio(ids, of_other_rows.masked_fill(~is_masked, IGNORED))
    assert strange is not None
    assert strange < bound
    few = rows[:2].masked_fill(~is_masked[:2], IGNORED)
    assert target_ratio(ids[:2], few) is None


def test_one_id_between_the_words_is_scattered_and_a_mask_or_padding_is_not() -> None:
    rows, draws = windows(0, 16), torch.Generator().manual_seed(0)
    is_written_over = torch.rand(rows.shape, generator=draws) < 0.5
    unknown = rows.masked_fill(is_written_over, 3)
    following = torch.full_like(unknown, IGNORED)
    following[:, :-1] = unknown[:, 1:]
    share, unknown_id = scattered(unknown, following)
    assert share == pytest.approx(0.5, abs=0.05)
    assert unknown_id == 3
    assert scattered(rows, rows)[0] < limit("DAT012", "scattered")
    masked = torch.where(is_written_over, rows, IGNORED)
    assert scattered(unknown, masked)[0] == 0
    form = rows.clone()
    form[:, ::2] = 3
    assert scattered(form, form)[0] == 0
    padded = rows.clone()
    padded[:, TIME // 2 :] = 0
    assert scattered(padded, padded)[0] == 0


def test_a_mask_that_is_frequent_weaves_no_text() -> None:
    # half of the tokens are one id, and most often two places after another one of them
    draws = torch.Generator().manual_seed(3)
    others = torch.randint(10, 400, (16, 24), generator=draws)
    is_mask = torch.rand(others.shape, generator=draws) < 0.35
    is_mask[:, 2:] |= is_mask[:, :-2] & (torch.rand((16, 22), generator=draws) < 0.6)
    masked = others.masked_fill(is_mask, 4)
    assert (pair_ratio(masked, 2) or 0.0) > 1.2
    assert interleaving(masked) == 0
