"""A trained model that learns from a handful of rows, or whose steps together reach nowhere."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pellucid.diagnosis import Finding, History, diagnose
from pellucid.vitals import Mark, MarkName
from pellucid.vitals.ledger.batch_rows import ROWS
from pellucid.vitals.ledger.row_counts import RowCounts
from support.courses import curve, healthy

UPDATES, START = 150, 5.5
FLAT = tuple((n, START + 0.2 * (-1) ** n) for n in range(1, UPDATES + 1))


def tuning(rate: float = 1e-5, n_trained: int = 20_000, total: int | None = None) -> History:
    """A course of a trained model with adapters, whose loss stays."""
    course = healthy()
    facts = replace(
        course.facts, pretrained=True, betas=(0.9, 0.999), n_trained=n_trained, total_steps=total
    )
    rates = tuple((n, rate) for n in range(1, UPDATES + 1))
    norms = tuple((n, 0.9) for n in (1, 50, 150))
    return replace(course, facts=facts, rates=rates, losses=FLAT, grad_norms=norms, signs={})


def named(history: History, code: str) -> list[Finding]:
    return [finding for finding in diagnose(history) if finding.code == code]


def test_adapters_whose_steps_cannot_lower_the_loss_are_named() -> None:
    (finding,) = named(tuning(), "OPT007")
    assert finding.severity != "note"
    # 150 updates of 1e-5 along gradients of 0.9 in 20,000 numbers
    assert "0.19 at most" in finding.text()


@pytest.mark.parametrize(
    "history",
    [
        tuning(rate=5e-3),
        tuning(n_trained=10_000_000),
        tuning(total=10_000),  # most of the updates are still to come
        replace(tuning(), losses=curve(START, 4.4, UPDATES)),
        replace(tuning(), facts=replace(tuning().facts, betas=None)),
        replace(tuning(), grad_norms=()),
    ],
)
def test_steps_that_reach_far_enough_are_left_alone(history: History) -> None:
    assert named(history, "OPT007") == []


def epoch_of(n_rows: int, updates: int, *, in_order: bool = False) -> float:
    counts, draws = RowCounts(), random.Random(0)
    rows = [n % n_rows if in_order else draws.randrange(n_rows) for n in range(ROWS * updates)]
    for first in range(0, len(rows), ROWS):
        counts.add({f"text{i}": float(1 + rows[first + i]) for i in range(ROWS)})
    return counts.updates_an_epoch()


@pytest.mark.parametrize("in_order", [False, True])
def test_how_many_updates_read_all_rows_is_known_once_few_rows_are_new(in_order: bool) -> None:
    assert 3 <= epoch_of(24, 40, in_order=in_order) < 3.3
    assert 11 <= epoch_of(90, 40, in_order=in_order) < 13
    assert epoch_of(10_000, 40, in_order=in_order) == 0
    assert RowCounts().updates_an_epoch() == 0


def test_rows_that_are_new_again_leave_an_epoch_unknown() -> None:
    counts = RowCounts()
    for update in range(40):
        pool = 24 * (update // 30)
        counts.add({f"text{i}": float(1 + pool + (8 * update + i) % 24) for i in range(ROWS)})
    assert counts.updates_an_epoch() == 0


@pytest.mark.parametrize(
    ("epoch", "vocab_size", "is_named"),
    [(6.0, 1000, True), (10.0, 1000, False), (6.0, 3, False)],
)
def test_texts_that_a_few_updates_read_are_named_in_a_trained_model_too(
    epoch: float, vocab_size: int, is_named: bool
) -> None:
    known = Mark(n_seen=3, n_seeable=8, first=6, values=[1.0] * 3, steps=[6, 7, 8])
    mark = Mark(n_seen=1, n_seeable=8, first=8, values=[epoch], steps=[8])
    length = Mark(n_seen=8, n_seeable=8, first=1, values=[20.0] * 8, steps=[*range(1, 9)])
    marks: dict[MarkName, Mark] = {"known_rows": known, "epoch": mark, "length": length}
    history = replace(tuning(rate=1e-3), marks=marks)
    history = replace(history, facts=replace(history.facts, vocab_size=vocab_size))
    assert [f.severity != "note" for f in named(history, "DAT021")] == [True] * is_named


@pytest.mark.parametrize("has_prompts", [False, True])
def test_parts_of_prompts_that_come_again_are_no_rows(has_prompts: bool) -> None:
    times = [12.0] * 40
    known = Mark(n_seen=40, n_seeable=40, first=2, values=times, steps=[*range(1, 41)])
    course = healthy()
    facts = replace(course.facts, has_prompts=has_prompts)
    losses = curve(8.0, 0.01, 200)
    history = replace(course, facts=facts, losses=losses, marks={"known_rows": known})
    assert bool(named(history, "DAT021")) != has_prompts
