"""The order of several batches' rows, restored weights, forgotten memories, and constant bounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from pellucid.vitals import watch
from pellucid.vitals.call.reading_order import disorder, filled, measure_batches
from pellucid.vitals.ledger.bounds import BOUND, share_at_bound

ROWS, TIME, KINDS = 8, 25, 400


@cache
def text() -> Tensor:
    """A chain in which each token has three that may follow it."""
    draws = torch.Generator().manual_seed(0)
    followers = torch.randint(KINDS, (KINDS, 3), generator=draws)
    choices = torch.randint(3, (20000,), generator=draws).tolist()
    ids = [0]
    for choice in choices:
        ids.append(int(followers[ids[-1], choice]))
    return torch.tensor(ids)


def batches(change: Callable[[Tensor], Tensor], n: int = 8) -> list[tuple[Tensor, Tensor | None]]:
    draws = torch.Generator().manual_seed(1)
    starts = torch.randint(len(text()) - TIME, (n, ROWS), generator=draws)
    rows = [torch.stack([text()[i : i + TIME] for i in batch.tolist()]) for batch in starts]
    return [(change(x), None) for x in rows]


def shuffled(x: Tensor) -> Tensor:
    draws = torch.Generator().manual_seed(int(x.sum()))
    return torch.stack([row[torch.randperm(len(row), generator=draws)] for row in x])


def across(x: Tensor) -> Tensor:
    return x.t().reshape(x.shape)


def spaced(x: Tensor) -> Tensor:
    """Each third token is followed by an id that is in no text; each row begins elsewhere."""
    rows = [
        torch.cat([torch.cat([x[i, j : j + 3], x.new_tensor([KINDS])]) for j in (0, 3, 6, 9)])
        for i in range(len(x))
    ]
    return torch.stack([row.roll(i) for i, row in enumerate(rows)])


def test_a_text_is_in_order() -> None:
    signs = measure_batches(batches(lambda x: x))
    assert signs == {"batch.filled": 0.0}


def test_tokens_in_a_random_order_show_none_at_any_distance() -> None:
    ratio = measure_batches(batches(shuffled))["batch.disorder"]
    assert 0.3 < ratio < 1.5
    # one batch is too small to tell
    assert "batch.disorder" not in measure_batches(batches(shuffled, 1))


def test_a_text_that_is_read_across_is_tied_at_another_distance() -> None:
    signs = measure_batches(batches(across))
    assert signs["batch.interleaved"] > 1.5
    assert "batch.disorder" not in signs


def test_padding_says_nothing_of_the_order() -> None:
    masked = [(x, torch.arange(TIME).expand_as(x) < 20) for x, _ in batches(shuffled)]
    signs = measure_batches(masked)
    assert "batch.disorder" in signs
    assert "batch.interleaved" not in signs
    assert measure_batches([None]) == {}


def test_a_form_has_an_order_at_one_distance() -> None:
    def form(x: Tensor) -> Tensor:
        x = shuffled(x)
        x[:, 5::7] = x[:, 1::7][:, : x[:, 5::7].shape[1]]
        return x

    rows = torch.cat([x for x, _ in batches(form)])
    assert disorder(rows, torch.ones_like(rows, dtype=torch.bool)) is None


@pytest.mark.parametrize("named", [(), (KINDS,)])
def test_an_id_at_even_distances_fills_a_text(named: tuple[int, ...]) -> None:
    rows = torch.cat([x for x, _ in batches(spaced)])
    assert filled(rows, named) == 0.25
    assert filled(rows[:4], named) == 0.0  # too few
    is_broken = torch.rand(rows.shape, generator=torch.Generator().manual_seed(2)) < 0.25
    broken = rows.masked_fill(is_broken & (rows == KINDS), 1)
    assert filled(broken, named) == (0.25 if named else 0.0)
    far = torch.cat([rows, rows.flip(0)], 1)[:, ::2]
    assert filled(far[:, :24], named) in (0.0, 0.5)


def _trained(change: Callable[[nn.Module, torch.optim.Optimizer, int], None], momentum: float):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=momentum)
    with watch(model, optimizer, max_overhead=None) as w:
        for step in range(1, 81):
            loss = model(torch.randn(4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            w.step(loss)
            optimizer.zero_grad()
            change(model, optimizer, step)
    return w


def test_weights_that_come_again_return_by_so_many_steps() -> None:
    states: dict[int, dict[str, Tensor]] = {}

    def put_back(model: nn.Module, _: torch.optim.Optimizer, step: int) -> None:
        states[step] = {name: x.clone() for name, x in model.state_dict().items()}
        if step in (30, 60):
            model.load_state_dict(states[step - 10])
        if step == 70:
            model.load_state_dict(states[step])  # in and out again
        if step == 75:
            with torch.no_grad():
                model[1].weight.mul_(0.9)

    w = _trained(put_back, 0.0)
    points = w.state.judge.record.signs["update.returned"].points
    assert [(point.step, point.value) for point in points] == [(31, 10.0), (61, 10.0)]


@pytest.mark.parametrize(("momentum", "forgets", "times"), [(0.9, True, 4), (0.9, False, 0)])
def test_a_momentum_that_is_cleared_is_forgotten(
    momentum: float, forgets: bool, times: int
) -> None:
    def clear(_: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
        if forgets and step % 16 == 0:
            optimizer.state.clear()

    mark = _trained(clear, momentum).state.marks["reset"]
    assert (mark.n_seen, mark.first) == (times, 17 if times else 0)
    assert mark.values == [16.0] * times


def test_plain_descent_has_no_memory_to_lose() -> None:
    assert "reset" not in _trained(lambda *_: None, 0.0).state.marks


def test_steps_of_one_size_from_zero_are_at_no_bound() -> None:
    draws = torch.Generator().manual_seed(0)
    signs = torch.randn(40, 96, generator=draws, dtype=torch.float64).sign()
    tilt = torch.where(torch.rand(96, generator=draws) < 0.4, 1.0, signs)
    weights, columns = tilt.cumsum(0), torch.arange(96).view(3, 32)
    assert bool((share_at_bound(weights, columns)[2:] < BOUND).all())
    noise = torch.rand(40, 96, generator=draws, dtype=torch.float64)
    clamped = (weights + noise).clamp(-3, 3)
    assert bool((share_at_bound(clamped, columns)[20:] >= BOUND).all())


@pytest.mark.parametrize(("is_scheduled", "first"), [(True, 2), (False, 1)])
def test_readings_wait_for_the_first_step_of_a_warm_up(is_scheduled: bool, first: int) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2 if is_scheduled else 0.0)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    if not is_scheduled:
        del optimizer.param_groups[0]["initial_lr"]
    with watch(model, optimizer, max_overhead=None) as w:
        for _ in range(12):
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            if is_scheduled:
                warm_up.step()
            optimizer.zero_grad()
            w.step()
    assert w.state.judge.record.signs["update.ratio"].points[0].step == first
