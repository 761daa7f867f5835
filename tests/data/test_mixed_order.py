"""Several texts mixed by weight: the shares, the order, and the refusals."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from pellucid.config import Mixture, Source
from pellucid.data import next_token_batches
from pellucid.data.order import MixedOrder, Permutation, Ring, WindowOrder
from pellucid.errors import ConfigError, TextError

RINGS = (Ring(0, 100, 3.0), Ring(100, 1000, 1.0), Ring(1100, 50, 0.01))


def test_every_thousand_rows_have_the_shares_of_the_weights() -> None:
    order = MixedOrder(RINGS, length=10, seed=1)
    for block in (0, 1, 10**9):
        firsts = order.windows(block * 1024, 1024)[2]
        counts = [int((firsts == ring.first).sum()) for ring in RINGS]
        shares = [1024 * ring.weight / 4.01 for ring in RINGS]
        assert np.abs(np.subtract(counts, shares)).max() < 2


def test_the_order_is_a_function_of_seed_and_position() -> None:
    order = MixedOrder(RINGS, length=10, seed=1)
    all_windows = order.windows(1000, 100)
    parts = [MixedOrder(RINGS, length=10, seed=1).windows(1000 + n, 1) for n in range(100)]
    assert all(
        (np.concatenate(p) == w).all()
        for p, w in zip(zip(*parts, strict=True), all_windows, strict=True)
    )
    assert (MixedOrder(RINGS, length=10, seed=2).windows(1000, 100)[2] != all_windows[2]).any()


def test_within_a_text_all_is_seen_once_before_anything_is_seen_twice() -> None:
    starts, _, firsts, lengths = MixedOrder(RINGS, length=10, seed=1).windows(0, 5000)
    for ring in RINGS:
        ring_starts = starts[firsts == ring.first]
        n_windows = ring.n_tokens // 10
        for epoch in range(len(ring_starts) // n_windows):
            windows = ring_starts[epoch * n_windows : (epoch + 1) * n_windows]
            assert len(np.unique(windows % ring.n_tokens)) == n_windows
        assert (lengths[firsts == ring.first] == ring.n_tokens).all()


def test_a_row_has_tokens_of_one_text() -> None:
    tokens = np.repeat([0, 1, 2], [100, 1000, 50])
    batches = next_token_batches(tokens, context_length=10, seed=1, rings=RINGS)
    batch = batches.batch(0, 500)
    rows = np.concatenate([batch.ids.numpy(), batch.targets.numpy()], axis=1)
    assert all(len(set(row) - {-100}) == 1 for row in rows.tolist())


def test_one_text_has_the_order_of_its_windows() -> None:
    mixed = MixedOrder((Ring(0, 105, 1.0),), length=10, seed=3)
    starts, epochs = WindowOrder(105, length=10, seed=3).windows(7, 30)
    assert (mixed.windows(7, 30)[0] == starts).all()
    assert (mixed.windows(7, 30)[1] == epochs).all()


def test_a_text_shorter_than_a_context_is_refused_by_its_number() -> None:
    with pytest.raises(TextError, match="source 3 has 50 tokens to learn from, fewer than one"):
        MixedOrder(RINGS, length=60, seed=1)


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        ([("a", 1.0)], "at least two, was 1"),
        ([("a", 1.0), ("-", 1.0)], "standard input cannot be mixed"),
        ([("a", 1.0), ("b", 600.0)], "a weight of 1 among 601 is less than 1 row in 512"),
    ],
)
def test_a_mixture_that_makes_no_sense_is_refused(
    sources: list[tuple[str, float]], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        Mixture(sources=tuple(Source(paths=(path,), weight=weight) for path, weight in sources))


@pytest.mark.parametrize("n", [2, 3, 17, 1024, 1025, 30_011])
def test_a_computed_shuffle_has_each_number_once(n: int) -> None:
    shuffled = Permutation(n, np.random.default_rng(n))[np.arange(n)]
    assert sorted(shuffled.tolist()) == list(range(n))
    if n > 1000:  # neighbours and places say nothing of a number
        assert abs(np.corrcoef(shuffled[:-1], shuffled[1:])[0, 1]) < 0.1
        assert abs(np.corrcoef(np.arange(n), shuffled)[0, 1]) < 0.1


def test_the_order_of_a_trillion_tokens_needs_no_table() -> None:
    tracemalloc.start()
    order = WindowOrder(10**12, length=1000, seed=3)
    windows = [order.windows(position, 256) for position in (0, 10**9 - 128, 10**11)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**21
    for starts, n_counted in windows:
        assert len(set(starts.tolist())) == 256
        assert ((starts >= 0) & (starts < 10**12 + 1000)).all()
        assert (n_counted == 1000).all()
    later_windows = WindowOrder(10**12, length=1000, seed=3).windows(10**9 - 100, 100)
    assert (later_windows[0] == windows[1][0][28:128]).all()
