"""The ledger of updates: its numbers are those of the weights, and it stays within its budget."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from pellucid.training import Guard
from pellucid.vitals import Mark
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.ledger.ledger import COLUMN, Ledger
from pellucid.vitals.ledger.marks import Marks, Row
from pellucid.vitals.ledger.output_gradients import OutputGradients
from pellucid.vitals.ledger.page import COLUMNS, Page, checksum
from pellucid.vitals.ledger.pulls import class_pulls, shift_of_rows, token_pulls, unevenness
from pellucid.vitals.ledger.witnesses import Witnesses, age_of
from pellucid.vitals.schedule import LookSchedule
from pellucid.vitals.taps.hooks import Hooks
from support.foreign import adam, ids_of, loss_of, made

CPU = torch.device("cpu")
NO_MATRIX = torch.zeros(0, 32, dtype=torch.long)


def numbers(**changes: float) -> dict[str, float]:
    """The statistics of a sound update, but for what is said."""
    return dict.fromkeys(COLUMNS, 0.0) | {"slope": 1.0, "moved": 1.0, "left": -1.0} | changes


def row(step: int, *, arrivals: int = 1, age: int | None = None, is_next: bool = True) -> Row:
    return Row(step, 1e-3, step if age is None else age, arrivals, 1, False, True, is_next)


def marked(rows: list[tuple[Row, dict[str, float]]]) -> dict[str, Mark]:
    marks = Marks()
    for one, table in rows:
        marks.add(one, table)
    return {name: mark for name, mark in marks.by_name.items() if mark.n_seen}


def test_a_checksum_is_equal_for_the_same_bits_alone() -> None:
    draws = torch.Generator().manual_seed(0)
    rows = torch.randn(200, 384, generator=draws, dtype=torch.float64)
    rows[7] = rows[3]
    rows[8] = torch.nextafter(rows[5], rows[5] + 1) * (torch.arange(384) == 9) + rows[5] * (
        torch.arange(384) != 9
    )
    sums = checksum(rows).tolist()
    assert sums[7] == sums[3]
    assert len(set(sums)) == 199
    assert checksum(rows[7:8]).item() == sums[7]
    assert all(value == math.floor(value) < 2**52 for value in sums)


def test_statistics_are_those_of_the_numbers_on_the_page() -> None:
    draws = torch.Generator().manual_seed(1)
    page = Page(4, 6, 3, CPU, torch.float64)
    for table in (page.before, page.gradient, page.after, page.old, page.new, page.total):
        table.copy_(torch.randn(table.shape, generator=draws, dtype=torch.float64))
    page.total[1] = 2 * page.gradient[1, :3]
    page.after[2, :3] = page.before[2, :3]
    decay = torch.tensor([0.5, 0.5, 0, 0, 0, 0])
    narrow = torch.tensor([True] * 6)
    matrices = torch.arange(6)[None]
    stats = page.statistics(3, decay, narrow, slice(0, 3), matrices)
    table = dict(zip(COLUMNS, stats.T, strict=True))
    assert stats.shape == (3, len(COLUMNS))
    rms = torch.linalg.vector_norm(page.after[:3] - page.before[:3], dim=1) / 6**0.5
    torch.testing.assert_close(table["step"], rms)
    assert table["cut"][1].item() == 0.5
    assert table["agrees"][1].item() == pytest.approx(1.0)
    cosine = torch.nn.functional.cosine_similarity(
        page.after[:3] - page.before[:3], page.gradient[:3]
    )
    torch.testing.assert_close(table["uphill"], cosine)
    assert table["lost"][2].item() == 0.5
    gap = torch.linalg.vector_norm(page.before[1] - page.after[0]) / 6**0.5
    torch.testing.assert_close(table["written"][1], gap)
    assert table["written"][0] == 0
    page.before[1:3] = page.after[:2] - 0.9 * (page.after[:2] - page.before[:2])
    page.after[1] = page.before[1] + 1
    page.before[2] = page.after[1] - 0.9
    undone = page.statistics(3, decay, narrow, slice(0, 3), matrices)[:, COLUMNS.index("undone")]
    torch.testing.assert_close(undone, torch.tensor([-1, 0.9, 0.9], dtype=torch.float64))
    pull = 0.5 * page.before[0, :2].norm() / page.gradient[0, :2].norm()
    torch.testing.assert_close(table["pull"][0], pull)
    torch.testing.assert_close(table["left"][0], page.old[0].norm() / page.new[0].norm())


def test_weights_are_put_back_only_if_they_are_those_of_an_earlier_update() -> None:
    def weights(*pairs: tuple[float, float]) -> dict[str, Mark]:
        rows = [
            (row(n), numbers(before=before, after=after, gradient=float(n)))
            for n, (before, after) in enumerate(pairs, start=1)
        ]
        return marked(rows)

    assert "restored" not in weights((1, 2), (2, 3), (3, 4))
    written = weights((1, 2), (2, 3), (9, 4))
    assert ("written" in written, "restored" in written) == (True, False)
    restored = weights((1, 2), (2, 3), (3, 4), (2, 5))["restored"]
    assert (restored.n_seen, restored.first, restored.value) == (1, 4, 2.0)


def test_weights_that_something_else_moves_are_not_those_that_go_back() -> None:
    def aside(gap: list[float]) -> float:
        page = Page(2, 4, 1, CPU, torch.float64)
        page.after[0] = torch.tensor([1.0, -1.0, 2.0, -2.0])
        page.before[1] = page.after[0] + torch.tensor(gap)
        numbers = torch.zeros(4)
        table = page.statistics(2, numbers, numbers.bool(), slice(0, 1), NO_MATRIX)
        return table[1, COLUMNS.index("aside")].item()

    assert aside([-0.5, 0.5, -0.5, 0.5]) == 0
    assert aside([-0.5, -0.5, 0.0, 0.0]) == 0.5
    assert aside([0.0] * 4) == -1
    moved = numbers(before=9, after=2, step=1.0, written=3.0, aside=0.5)
    marks = marked([(row(1), numbers(before=1, after=2, step=1.0)), (row(2), moved)])
    assert (marks["overwritten"].values, marks["overwritten"].steps) == ([3.0], [2])


def test_weights_put_back_between_two_pages_are_seen_too() -> None:
    first = (row(1), numbers(before=1, after=2))
    later = (row(40, is_next=False), numbers(before=2, after=3))
    assert marked([first, later])["restored"].value == 38
    sound = (row(40, is_next=False), numbers(before=30, after=31))
    assert "restored" not in marked([first, sound])


def test_gradients_of_the_update_before_count_only_if_none_arrived() -> None:
    pair = [(row(n), numbers(gradient=5.0)) for n in (1, 2)]
    assert "repeated" not in marked(pair)
    again = [pair[0], (row(2, arrivals=0), numbers(gradient=5.0))]
    assert marked(again)["repeated"].n_seen == 1


def test_a_memory_that_is_younger_than_before_was_lost() -> None:
    rows = [(row(n, age=age), numbers()) for n, age in ((1, 7), (2, 8), (3, 1), (4, 2))]
    lost = marked(rows)["reset"]
    assert (lost.n_seen, lost.n_seeable, lost.first, lost.value) == (1, 3, 3, 8.0)
    never_kept = marked([(row(n, age=1), numbers()) for n in (1, 2, 3)])["reset"]
    assert (never_kept.n_seen, never_kept.n_seeable) == (2, 2)


def test_weights_that_go_straight_back_to_the_start_are_pulled() -> None:
    def pulled(share: float, *, aside: float = 0.0) -> float:
        page = Page(2, 4, 1, CPU, torch.float64)
        page.start = torch.tensor([1.0, 2.0, 3.0, 4.0])
        page.after[0] = torch.tensor([5.0, -1.0, 0.0, 7.0])
        page.before[1] = page.after[0].double().lerp(page.start.double(), share)
        page.before[1, 0] += aside
        numbers = torch.zeros(4)
        table = page.statistics(2, numbers, numbers.bool(), slice(0, 1), NO_MATRIX)
        return table[1, COLUMNS.index("pulled")].item()

    assert pulled(0.1) == pytest.approx(0.1)
    assert pulled(0.0) == 0
    assert pulled(0.1, aside=3.0) == 0


def test_witnesses_are_of_every_optimiser_and_follow_memory_that_changes() -> None:
    model = made()
    halves = [list(model.layers.parameters()), list(model.head.parameters())]
    optimisers = [torch.optim.AdamW(half, lr=1e-3) for half in halves]
    loss_of(model, ids_of(0)).backward()
    witnesses = Witnesses(optimisers)
    assert set(witnesses.places) == set(optimisers)
    assert len(witnesses.parameters) == 12
    for parameter in witnesses.parameters:
        parameter.data = parameter.data + 1
    expected = witnesses.parameters[-1].detach().flatten()
    assert set(witnesses.weights()[-1].tolist()) <= set(expected.tolist())
    assert age_of(optimisers[0], witnesses.parameters[0]) is None
    optimisers[0].step()
    assert age_of(optimisers[0], witnesses.parameters[0]) == 1


def train(share: float | None, updates: int) -> tuple[Ledger, list[int]]:
    """A training's ledger, and the updates after which a page of it arrived."""
    guard, model = Guard(), made()
    optimiser, metrics = adam(model), AsyncMetrics(guard)
    ledger = Ledger([optimiser], LookSchedule(share, CPU), guard)
    ledger.attach(model, Hooks(guard))
    sent = list[int]()
    for step in range(1, updates + 1):
        loss_of(model, ids_of(step)).backward()
        ledger.begin(step)
        ledger.gather(optimiser)
        optimiser.step()
        ledger.end(step, metrics)
        optimiser.zero_grad()
        arrived = metrics.turn(step)
        sent += [step for column, _ in (arrived or (0, []))[1] if column.id == COLUMN]
    assert guard.off == {}
    return ledger, sent


def test_pages_follow_each_other_without_a_gap_and_stop_where_nothing_pays() -> None:
    assert train(None, 75)[1] == [9, 41, 73]  # 8 updates, then 32 each; read one update later
    assert train(1e-9, 75)[1] == [9]


def test_rows_of_a_page_are_steps_in_a_row() -> None:
    rows = train(None, 30)[0]._rows
    assert [one.step for one in rows] == list(range(9, 31))
    assert all(one.is_next and one.arrivals == 1 and one.has_gradient for one in rows)
    assert not any(one.is_resting for one in rows)


def test_batches_of_short_rows_come_again_if_all_their_first_rows_do() -> None:
    def batch(n: int, *texts: float) -> tuple[Row, dict[str, float]]:
        return row(n), numbers(tokens=5, **{f"text{i}": text for i, text in enumerate(texts)})

    first, second = (3.0, 4.0, 5.0, 6.0), (7.0, 8.0, 9.0, 3.0)
    in_turn = marked([batch(n, *(second if n % 2 else first)) for n in range(1, 9)])
    assert in_turn["known_rows"].values == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
    # short rows come again by chance, in other company, and so do equal ones
    mixed = marked([batch(1, *first), batch(2, *second), batch(3, 3.0, 4.0, 5.0, 9.0)])
    equal = marked([batch(n, 3.0, 3.0, 3.0, 3.0) for n in range(1, 5)])
    assert "known_rows" not in mixed | equal


def test_rows_of_text_are_counted_if_they_are_long_and_compared_with_the_batch_before() -> None:
    def batch(n: int, first: float, tokens: float) -> tuple[Row, dict[str, float]]:
        return row(n), numbers(tokens=tokens, text0=first, text1=7.0)

    long = marked([batch(1, 3.0, 20), batch(2, 3.0, 20), batch(3, 4.0, 20)])
    assert long["known_rows"].values == [1.0, 1.0]
    assert (long["same_rows"].n_seen, long["same_rows"].n_seeable) == (1, 2)
    assert "known_rows" not in marked([batch(1, 3.0, 5), batch(2, 3.0, 5)])
    copied = marked([batch(1, 7.0, 5), batch(2, 3.0, 5)])["copies"]
    assert (copied.values, copied.n_seeable) == ([1.0], 2)


def test_rows_in_another_order_are_the_same_rows() -> None:
    rows = [(row(n), numbers(tokens=20.0, text0=n % 2 + 5.0, text1=6.0 - n % 2)) for n in (1, 2, 3)]
    mark = marked(rows)["same_rows"]
    assert (mark.n_seen, mark.values) == (2, [0.0, 0.0])


def test_weights_of_32_bits_that_are_rounded_to_16_are_marked() -> None:
    def share(rounds: bool) -> float:
        page = Page(2, 64, 1, CPU, torch.float32)
        page.before[0] = torch.randn(64, generator=torch.Generator().manual_seed(2)).bfloat16()
        page.after[0] = page.before[0] * 1.0001
        page.before[1] = page.after[0].bfloat16() if rounds else page.after[0]
        stats = page.statistics(2, torch.zeros(64), torch.zeros(64).bool(), slice(0, 1), NO_MATRIX)
        return stats[1, COLUMNS.index("rounded")].item()

    assert share(rounds=True) > 0.9
    assert share(rounds=False) == 0


def pulls_of(loss: Any, ids: torch.Tensor) -> list[float]:
    """What the gradient of a loss by random logits (rows, time, 50) shows."""
    logits = torch.randn(*ids.shape, 50, generator=torch.Generator().manual_seed(3))
    logits.requires_grad_()
    loss(logits).backward()
    gradient = logits.grad
    assert gradient is not None
    flat, places = gradient.flatten(0, 1), torch.arange(ids.numel())
    return [*token_pulls(flat, places, ids).tolist(), shift_of_rows(gradient, ids).item()]


def test_the_gradient_of_logits_shows_which_targets_it_pulls_and_which_way() -> None:
    ids = torch.randint(50, (4, 20), generator=torch.Generator().manual_seed(4))

    def ce(targets: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        n = targets.shape[1]
        return nn.functional.cross_entropy(logits[:, :n].flatten(0, 1), targets.flatten())

    following = partial(ce, ids[:, 1:])
    assert pulls_of(following, ids) == [1.0, 0.0, 0.0]
    assert pulls_of(lambda logits: -following(logits), ids)[1] == 1.0
    assert pulls_of(partial(ce, ids[:, 2:]), ids)[2] == 1.0
    padded = torch.stack([row.roll(n) for n, row in enumerate(ids[:, 1:])])
    padded = padded.masked_fill(torch.arange(19) < torch.arange(4)[:, None], -100)
    assert pulls_of(partial(ce, padded), ids)[2] == 3.0


@pytest.mark.parametrize(("weight", "factor"), [(1.0, 1.0), (1 / 3, 1 / 3), (3.0, 3.0)])
def test_weights_of_classes_are_compared_with_their_rows(weight: float, factor: float) -> None:
    logits = torch.randn(9, 2, generator=torch.Generator().manual_seed(5), requires_grad=True)
    labels = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, -100])
    nn.functional.cross_entropy(logits, labels, weight=torch.tensor([weight, 1.0])).backward()
    assert logits.grad is not None
    sums = class_pulls(logits.grad, logits.detach(), labels)
    assert sums[0].tolist() == [6, 2]
    assert unevenness(sums).item() == pytest.approx(factor, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_targets_that_a_saturated_softmax_knows_are_not_pushed_down(dtype: torch.dtype) -> None:
    """Where p rounds to 1, the target has no gradient, and one other token is left."""
    draws = torch.Generator().manual_seed(0)
    ids = torch.randint(50, (4, 32), generator=draws)
    known = torch.nn.functional.one_hot(ids.roll(-1, 1), 50)
    noise = torch.randn(4, 32, 50, generator=draws)
    logits = (30 * known + 10 * noise).to(dtype).requires_grad_()
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    assert logits.grad is not None
    follows, lowered = token_pulls(logits.grad.view(-1, 50), torch.arange(128), ids)
    assert (follows, lowered) == (1, 0)


def test_gradients_that_are_zero_or_others_than_those_that_arrived_are_marked() -> None:
    blank = [(row(n), numbers(slope=0.0 if n % 2 else 1.0)) for n in (1, 2, 3)]
    assert (marked(blank)["blank"].n_seen, marked(blank)["blank"].n_seeable) == (2, 3)
    assert marked([(row(1), numbers(agrees=0.1))])["swapped"].values == [0.1]
    assert "swapped" not in marked([(row(1), numbers(agrees=0.9)), (row(2), numbers())])


def test_gradients_that_arrive_at_none_after_the_first_were_cleared() -> None:
    mark = marked([(row(n, arrivals=5), numbers(fresh=5.0)) for n in (1, 2)])["discarded"]
    assert (mark.n_seen, mark.value) == (2, 4.0)
    assert "discarded" not in marked([(row(1, arrivals=5), numbers(fresh=1.0))])


@pytest.mark.parametrize("n_paid", [1, 9, 40, 200])
def test_the_sum_of_few_paid_places_is_exact_and_of_many_an_estimate(n_paid: int) -> None:
    recorder = OutputGradients(Guard())
    recorder.records = recorder.measures_outputs = True
    gradient = torch.zeros(8, 32, 64)
    paid = torch.randperm(256, generator=torch.Generator().manual_seed(0))[:n_paid]
    own = torch.randn(n_paid, 64, generator=torch.Generator().manual_seed(1)).softmax(-1)
    gradient.view(256, 64)[paid] = own / n_paid
    recorder.measure_tokens(None, gradient)
    assert recorder.sizes[0].item() == pytest.approx(1.0, rel=1e-5)
