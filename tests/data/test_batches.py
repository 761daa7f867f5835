from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.batches import IGNORED, TokenBatch
from pellucid.data import next_token_batches, next_token_windows
from pellucid.errors import TextError

FEW = settings(max_examples=40)


def numbered(n: int) -> np.ndarray:
    """Tokens that are their own places, so that a target says where it was taken from."""
    return np.arange(n, dtype=np.uint16)


def supervised(batch: TokenBatch) -> list[tuple[int, int]]:
    """(token, what follows) wherever something is predicted."""
    is_target = batch.targets != IGNORED
    return list(zip(batch.ids[is_target].tolist(), batch.targets[is_target].tolist(), strict=True))


def same(one: TokenBatch, other: TokenBatch) -> bool:
    return (
        torch.equal(one.ids, other.ids)
        and torch.equal(one.targets, other.targets)
        and one.n_supervised == other.n_supervised
    )


@FEW
@given(
    length=st.integers(1, 9),
    extra=st.integers(0, 40),
    epoch=st.integers(0, 5),
    seed=st.integers(0, 2**63 - 1),
)
def test_every_token_is_a_target_once_in_every_epoch(
    length: int, extra: int, epoch: int, seed: int
) -> None:
    n = length + extra
    order = next_token_batches(numbered(n), context_length=length, seed=seed)
    one_epoch = order.batch(epoch * order.rows_per_epoch, order.rows_per_epoch)
    pairs = supervised(one_epoch)
    assert sorted(pairs) == [(place, (place + 1) % n) for place in range(n)]
    assert one_epoch.n_supervised == len(pairs) == n


@FEW
@given(
    n=st.integers(5, 40),
    position=st.integers(0, 200),
    count=st.integers(1, 12),
    seed=st.integers(0, 9),
)
def test_position_is_all_the_state_there_is(n: int, position: int, count: int, seed: int) -> None:
    order = next_token_batches(numbered(n), context_length=5, seed=seed)
    batched = order.batch(position, count)
    fresh = next_token_batches(numbered(n), context_length=5, seed=seed)
    singles = [fresh.batch(position + index, 1) for index in reversed(range(count))][::-1]
    assert torch.equal(batched.ids, torch.cat([single.ids for single in singles]))
    assert torch.equal(batched.targets, torch.cat([single.targets for single in singles]))
    assert batched.n_supervised == sum(single.n_supervised for single in singles)


def test_batch_may_reach_over_the_end_of_an_epoch() -> None:
    order = next_token_batches(numbered(23), context_length=5, seed=0)
    counts = Counter(supervised(order.batch(0, 3 * order.rows_per_epoch)))
    assert set(counts.values()) == {3}
    assert len(counts) == 23


def test_same_seed_same_order_and_another_seed_another() -> None:
    first_order, same_order = (
        next_token_batches(numbered(100), context_length=8, seed=3) for _ in range(2)
    )
    other_order = next_token_batches(numbered(100), context_length=8, seed=4)
    assert same(first_order.batch(7, 30), same_order.batch(7, 30))
    assert not same(first_order.batch(7, 30), other_order.batch(7, 30))


def test_epochs_differ_in_their_order_and_in_where_they_cut() -> None:
    order = next_token_batches(numbered(400), context_length=16, seed=1)
    epochs = [
        order.batch(epoch * order.rows_per_epoch, order.rows_per_epoch).ids[:, 0].tolist()
        for epoch in range(4)
    ]
    cuts = [{start % 16 for start in starts} for starts in epochs]
    assert len({tuple(starts) for starts in epochs}) == 4
    assert len({frozenset(cut) for cut in cuts}) > 1
    assert all(starts != sorted(starts) for starts in epochs)


def test_ids_are_windows_of_the_text_and_int64() -> None:
    batch = next_token_batches(numbered(30), context_length=6, seed=0).batch(0, 5)
    assert batch.ids.dtype == batch.targets.dtype == torch.int64
    assert ((batch.ids[:, 1:] - batch.ids[:, :-1]) % 30 == 1).all()


def test_text_of_one_context_is_enough_and_less_is_refused_with_what_to_do() -> None:
    assert next_token_batches(numbered(8), context_length=8, seed=0).batch(0, 1).n_supervised == 8
    with pytest.raises(TextError) as refusal:
        next_token_batches(numbered(40), context_length=64, seed=0)
    assert "has 40 tokens, fewer than one context of 64" in str(refusal.value)
    assert "--set model.context_length=5" in str(refusal.value)


@FEW
@given(n=st.integers(2, 60), length=st.integers(1, 9), batch_size=st.integers(1, 4))
def test_evaluation_predicts_each_token_after_the_first_once_and_in_order(
    n: int, length: int, batch_size: int
) -> None:
    batches = list(next_token_windows(numbered(n), context_length=length, batch_size=batch_size))
    pairs = [pair for batch in batches for pair in supervised(batch)]
    assert pairs == [(place, place + 1) for place in range(n - 1)]
    assert sum(batch.n_supervised for batch in batches) == n - 1
    assert all(batch.ids.shape[0] <= batch_size for batch in batches)
    assert all(batch.ids.shape[1] == length for batch in batches)


@FEW
@given(data=st.data(), n=st.integers(6, 40), length=st.integers(2, 6), seed=st.integers(0, 9))
def test_each_token_carries_the_number_of_its_document(
    data: st.DataObject, n: int, length: int, seed: int
) -> None:
    inner = data.draw(st.sets(st.integers(1, n - 1), max_size=5))
    starts = np.array(sorted({0} | inner))
    order = next_token_batches(numbered(n), context_length=length, seed=seed, documents=starts)
    plain = next_token_batches(numbered(n), context_length=length, seed=seed)
    batches = [(order.batch(0, 8), plain.batch(0, 8))]
    cut = {"context_length": length, "batch_size": 2}
    kept_apart = next_token_windows(numbered(n), **cut, documents=starts)
    batches += list(zip(kept_apart, next_token_windows(numbered(n), **cut), strict=True))
    for batch, undivided in batches:
        assert undivided.documents is None
        assert same(batch, undivided)
        assert batch.documents is not None
        numbers = np.searchsorted(starts, batch.ids.numpy(), side="right")
        assert batch.documents.tolist() == numbers.tolist()
