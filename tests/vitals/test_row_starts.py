"""The first tokens of rows in training and in evaluation: two forms, or one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pellucid.diagnosis import diagnose, history_of_watch
from pellucid.training import Guard
from pellucid.vitals import watch
from pellucid.vitals.taps.first_batch import FirstBatch
from pellucid.vitals.taps.hooks import Hooks, LastingHook
from pellucid.vitals.taps.row_starts import RowStarts, starts_of

ROWS, BOS = 8, 1
USED, OTHER = (BOS, 20, 21), (BOS, 30, 21)


class Reader(nn.Module):
    def forward(self, input_ids: Tensor, labels: Any = None, attention_mask: Any = None) -> Tensor:
        return input_ids


def rows(start: tuple[int, ...], seed: int = 0, n: int = ROWS) -> Tensor:
    """Texts of 12 tokens behind a start."""
    draws = torch.Generator().manual_seed(seed)
    texts = torch.randint(40, 60, (n, 12), generator=draws)
    return torch.cat([torch.tensor(start, dtype=torch.long).expand(n, -1), texts], 1)


class Run:
    """Calls of a model in training and in evaluation, whose starts are kept."""

    def __init__(self) -> None:
        self.model = Reader()
        batch = FirstBatch(self.model)
        batch.attach(self.model, Hooks(Guard(), LastingHook))
        self.starts = batch.row_starts

    def train(self, start: tuple[int, ...], n: int = 3) -> None:
        self.model.train()
        for seed in range(n):
            self.model(input_ids=rows(start, seed))

    def evaluate(self, start: tuple[int, ...], n: int = 1, *, labels: bool = True) -> None:
        self.model.eval()
        with torch.no_grad():
            for seed in range(n):
                ids = rows(start, 50 + seed)
                self.model(input_ids=ids, labels=ids if labels else None)


@pytest.mark.parametrize(
    ("trained", "evaluated", "token"),
    [
        (USED, USED, None),
        (USED, OTHER, 2),
        (USED, (30, 20, 21), 1),
        # rows without a start in common, with a start token and without
        ((), (), None),
        (USED, (), 1),
        ((), USED, 1),
        ((BOS,), USED, None),
        ((20, 21), (), None),
        ((), (20, 21), None),
    ],
)
def test_starts_are_compared(
    trained: tuple[int, ...], evaluated: tuple[int, ...], token: int | None
) -> None:
    run = Run()
    run.train(trained, 4)
    run.evaluate(evaluated)
    difference = run.starts.compare({BOS})
    assert (None if difference is None else difference.token) == token
    if difference is not None:
        assert difference[:2] == (3 * ROWS, ROWS)  # calls 1, 2 and 4


def test_few_calls_and_rows_say_nothing() -> None:
    run = Run()
    run.train(USED, 3)  # two of them are kept
    run.evaluate(OTHER)
    assert run.starts.compare() is None
    run.train(USED, 1)
    assert run.starts.compare() is not None
    unseen = Run()
    unseen.train(USED, 4)
    unseen.evaluate(OTHER, labels=False)  # it generates
    assert unseen.starts.compare() is None
    with torch.no_grad():
        unseen.model(input_ids=rows(OTHER, n=7), labels=0)
        assert unseen.starts.compare() is None
        unseen.model.train()
        unseen.model(input_ids=rows(OTHER), labels=0)  # old probabilities of a policy
    assert unseen.starts.compare() is None


def test_one_text_of_the_other_form_is_enough() -> None:
    run = Run()
    run.train(USED, 4)
    run.evaluate(OTHER)
    run.evaluate(USED)
    assert run.starts.compare({BOS}) is None


def test_a_start_stands_behind_padding() -> None:
    ids = torch.cat([torch.zeros(2, 3, dtype=torch.long), rows(USED, n=2)], 1)
    mask = (torch.arange(ids.shape[1]) >= 3).long().expand_as(ids)
    assert starts_of(ids, mask)[:, :3].tolist() == [[*USED]] * 2
    assert starts_of(ids, torch.ones_like(ids))[:, :3].tolist() == [[0, 0, 0]] * 2


def test_rows_that_are_too_short_or_no_ids_have_no_start() -> None:
    ids = rows(USED, n=2)
    for call in (ids[:, :3], torch.ones(2, 9, 4)):
        starts = RowStarts()
        for _ in range(4):
            starts.keep((), {"input_ids": call})
        with torch.no_grad():
            starts.keep((), {"input_ids": call, "labels": ids})
        assert starts.compare() is None
        assert starts.exchanged() is None


class Speaker(nn.Module):
    """A model of pairs of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(64, 8), nn.Linear(8, 64)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        logits = self.head(self.table(input_ids))[:, :-1]
        return cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())


@pytest.mark.parametrize(("start", "is_named"), [(USED, False), (OTHER, True)])
def test_a_loop_that_evaluates_another_form_is_told_so(
    start: tuple[int, ...], is_named: bool
) -> None:
    model = Speaker()
    optimizer = torch.optim.Adam(model.parameters())
    with watch(model, optimizer) as w:
        for step in range(12):
            optimizer.zero_grad()
            ids = rows(USED, step)
            loss = model(input_ids=ids, labels=ids)
            loss.backward()
            optimizer.step()
            w.step(loss)
            if step % 4 == 0:
                model.eval()
                with torch.no_grad():
                    held_out = rows(start, 90 + step)
                    model(input_ids=held_out, labels=held_out)
                model.train()
    findings = diagnose(history_of_watch(w))
    assert ("DAT036" in [finding.code for finding in findings]) == is_named
    assert w.guard.off == {}


def two_texts(low: int, seed: int) -> Tensor:
    """Rows of 12 tokens of a text with ids of its own, and of a few that all texts have."""
    draws = torch.Generator().manual_seed(seed)
    own = torch.randint(low, low + 20, (16, 12), generator=draws)
    return own.where(torch.rand(own.shape, generator=draws) < 0.7, own % 3 + 3)


@pytest.mark.parametrize(
    ("reads", "writes", "is_exchanged"), [(40, 80, False), (80, 40, True), (40, 42, False)]
)
def test_texts_that_evaluation_exchanges_are_named(
    reads: int, writes: int, *, is_exchanged: bool
) -> None:
    run = Run()
    run.model.train()
    for seed in range(4):
        run.model(input_ids=two_texts(40, seed), labels=two_texts(80, seed + 9))
    assert run.starts.exchanged() is None  # nothing was evaluated
    run.model.eval()
    with torch.no_grad():
        for seed in range(4):
            run.model(input_ids=two_texts(reads, 50 + seed), labels=two_texts(writes, 60 + seed))
    texts = run.starts.exchanged()
    assert (texts is not None) == is_exchanged
    if texts is not None:
        assert texts.crosswise > 0.8
        assert texts.same_side < 0.5


def test_a_few_tokens_show_no_exchange_and_padding_does_not_count() -> None:
    for n_rows, is_exchanged in ((16, True), (5, False)):
        run = Run()
        for seed in range(2):
            ids, labels = two_texts(40, seed)[:n_rows], two_texts(80, seed)[:n_rows]
            padded = torch.cat([ids, torch.full((n_rows, 60), 7)], 1)
            mask = (torch.arange(72) < 12).long().expand_as(padded)
            run.model.train()
            run.model(input_ids=padded, labels=labels, attention_mask=mask)
            run.model.eval()
            with torch.no_grad():
                padded = torch.cat([labels, torch.full((n_rows, 60), 7)], 1)
                run.model(input_ids=padded, labels=ids, attention_mask=mask)
        assert (run.starts.exchanged() is not None) == is_exchanged
