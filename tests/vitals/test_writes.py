"""Writes to weights between updates are seen at every update, and swaps are none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from pellucid.training import Guard
from pellucid.vitals import watch
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.ledger.writes import Writes
from pellucid.vitals.taps.hooks import IdleSpell


def swapped(model: nn.Module) -> None:
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    for weight in model.parameters():
        weight.zero_()
    model.load_state_dict(before)


def halved(model: nn.Module) -> None:
    for weight in model.parameters():
        weight.mul_(0.5)


def drawn_by_data(model: nn.Module) -> None:
    for weight in model.parameters():
        weight.data.normal_()


def swapped_by_data(model: nn.Module) -> None:
    before = [weight.data.clone() for weight in model.parameters()]
    drawn_by_data(model)
    for weight, numbers in zip(model.parameters(), before, strict=True):
        weight.data.copy_(numbers)


@pytest.mark.parametrize(
    ("write", "is_far"),
    [
        (lambda model: None, False),
        (swapped, False),
        (halved, True),
        (drawn_by_data, True),
        (swapped_by_data, False),
    ],
    ids=["nothing", "swapped in and out", "halved", "drawn anew by data", "swapped by data"],
)
def test_a_write_is_seen_in_the_update_after_it(
    write: Callable[[nn.Module], None], is_far: bool
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watch(model, optimizer) as w:
        for step in range(1, 121):
            loss = model(torch.randn(4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            w.step(loss)
            optimizer.zero_grad()
            if step in (50, 100):
                with torch.no_grad():
                    write(model)
    readings = w.state.judge.record.signs.get("update.written")
    points = [] if readings is None else [p for p in readings.points if p.value > 10]
    assert bool(points) == is_far
    assert all(point.step in (51, 101) for point in points)


def test_a_return_to_the_weights_of_the_start_is_one() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    first = {name: weight.clone() for name, weight in model.state_dict().items()}
    with watch(model, optimizer) as w:
        for step in range(1, 81):
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            w.step()
            optimizer.zero_grad()
            if step in (40, 60):
                model.load_state_dict(first)
    readings = w.state.judge.record.signs["update.returned"]
    assert [(point.step, point.value) for point in readings.points] == [(41, 40.0), (61, 60.0)]


def test_weights_without_steps_have_no_ratio() -> None:
    weight = nn.Parameter(torch.ones(4))
    weight.grad = torch.ones(4)
    writes, metrics = (
        Writes([torch.optim.SGD([weight], lr=0.0)], IdleSpell()),
        AsyncMetrics(Guard()),
    )
    writes.end()
    for _ in range(3):
        writes.begin(metrics)
        writes.end()
        with torch.no_grad():
            weight.mul_(0.5)
    metrics.turn(3)
    arrived = metrics.read()
    assert arrived is not None
    assert all(numbers == [0.0] for _, numbers in arrived[1])
