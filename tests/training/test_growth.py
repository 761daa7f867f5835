"""Sizes that begin small: which rows each update learns from, and in pieces of which length."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.presets import find
from pellucid.runs import RunFolder, read_events
from pellucid.training import Job, Started, mean_rows
from pellucid.training.growth import stages
from support.tiny import train_tiny
from support.watched import job_of, small


@given(st.integers(0, 6), st.integers(1, 5), st.floats(0.01, 0.99), st.integers(1, 3000))
def test_sizes_double_over_equal_intervals(
    doublings: int, first: int, until: float, total: int
) -> None:
    full_size = first << doublings
    growth = config.GrowingBatch(first=first, until=until) if doublings else None
    grown = stages(growth, full_size, total)
    sizes = [grown.size_after(step) for step in range(total)]
    assert sizes == sorted(sizes)
    assert set(sizes) <= {first << n for n in range(doublings + 1)}
    assert sizes[-1] == full_size
    assert [grown.before(step) for step in (0, total // 2, total)] == [
        sum(sizes[:step]) for step in (0, total // 2, total)
    ]
    # equal shares of the time, but for what rounding takes
    for size in {first << n for n in range(doublings)}:
        assert abs(sizes.count(size) - until * total / doublings) <= 1


@given(st.integers(1, 6), st.floats(0.01, 0.99), st.integers(1, 3000))
def test_a_run_sees_at_least_the_rows_that_its_budget_counts(
    doublings: int, until: float, total: int
) -> None:
    growth = config.GrowingBatch(first=1, until=until)
    settings = settings_of(growth, batch_size=2**doublings)
    n_rows = stages(growth, 2**doublings, total).before(total)
    n_counted = mean_rows(settings) * total
    assert n_counted - 1e-6 <= n_rows < n_counted + 2**doublings


def settings_of(growth: config.Growth | None, batch_size: int) -> config.Training:
    return replace(find("nano").training, batch_size=batch_size, growth=growth)


def growing(growth: config.Growth | None, steps: int) -> tuple[Job, list[tuple[int, int]]]:
    """A job of batches of 8, and the places and rows that were asked for."""
    requests: list[tuple[int, int]] = []
    job = job_of(small(), steps=steps)
    length = job.model.context_length

    def rows(place: int, n: int) -> TokenBatch:
        requests.append((place, n))
        ids = torch.arange(place * length, (place + n) * length).view(n, length)
        return TokenBatch(ids=ids, targets=ids + 1, n_supervised=n * length)

    return replace(job, batch=rows, settings=replace(job.settings, growth=growth)), requests


def test_a_batch_that_grows_leaves_no_row_out_and_sees_none_twice() -> None:
    job, requests = growing(config.GrowingBatch(first=2, until=0.5), steps=8)
    for step in range(8):
        job.batch_of(step)
    assert [n for _, n in requests] == [2, 2, 4, 4, 8, 8, 8, 8]
    assert [place for place, _ in requests] == [0, 2, 4, 8, 12, 20, 28, 36]
    assert job.rows_before(8) == 44


def test_rows_that_grow_hold_the_same_tokens_in_the_same_order() -> None:
    job, requests = growing(config.GrowingLength(first=job_length() // 4, until=0.5), steps=8)
    plain, _ = growing(None, steps=8)
    lengths = []
    for step in range(8):
        batch, plain_batch = job.batch_of(step), plain.batch_of(step)
        assert isinstance(batch, TokenBatch)
        assert isinstance(plain_batch, TokenBatch)
        assert torch.equal(batch.ids.flatten(), plain_batch.ids.flatten())
        assert torch.equal(batch.targets.flatten(), plain_batch.targets.flatten())
        assert batch.n_supervised == plain_batch.n_supervised
        lengths.append(batch.ids.shape[1])
    whole_length = job_length()
    assert lengths == [whole_length // 4] * 2 + [whole_length // 2] * 2 + [whole_length] * 4
    assert requests == [(8 * step, 8) for step in range(8)]


@pytest.mark.parametrize("kind", [config.GrowingBatch, config.GrowingLength])
def test_a_longer_run_grows_over_the_updates_that_it_was_planned_for(
    kind: type[config.GrowingBatch | config.GrowingLength],
) -> None:
    job, _ = growing(kind(first=4, until=0.5), steps=8)
    longer = replace(job, plan=replace(job.plan, total_steps=20, growth_steps=8))

    def shapes(job: Job, steps: range) -> list[tuple[int, ...]]:
        batches = [job.batch_of(step) for step in steps]
        return [tuple(batch.ids.shape) for batch in batches if isinstance(batch, TokenBatch)]

    assert shapes(longer, range(8)) == shapes(job, range(8))
    assert set(shapes(longer, range(8, 20))) == set(shapes(job, range(7, 8)))
    assert [longer.rows_before(step) for step in range(9)] == [*map(job.rows_before, range(9))]


def job_length() -> int:
    return growing(None, steps=1)[0].model.context_length


def test_pieces_keep_the_documents_of_their_tokens() -> None:
    ids = torch.arange(8).view(2, 4)
    documents = torch.tensor([[0, 0, 1, 1], [1, 2, 2, 2]])
    cut = TokenBatch(ids=ids, targets=ids, n_supervised=8, documents=documents).cut(2)
    assert cut.ids.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert cut.documents is not None
    assert cut.documents.tolist() == [[0, 0], [1, 1], [1, 2], [2, 2]]
    assert cut.padding is None


@pytest.mark.parametrize(
    ("growth", "said"),
    [
        (
            '{kind="GrowingBatch", first=2, until=0.5}',
            "growing from 2 rows over 50% of the steps",
        ),
        (
            '{kind="GrowingLength", first=4, until=0.5}',
            "in pieces growing from 4 tokens over 50% of the steps",
        ),
    ],
)
def test_a_run_says_what_grows(tmp_path: Path, growth: str, said: str) -> None:
    train_tiny(tmp_path / "run", settings=[f"training.growth={growth}"])
    started = next(
        event
        for event in read_events(RunFolder(tmp_path / "run").metrics)
        if isinstance(event, Started)
    )
    assert said in dict(started.facts)["batch"]
