"""The numbers of each update, and the time of training without other work."""

from __future__ import annotations

import pytest
import torch

from pellucid.training.meter import Meter
from pellucid.training.step import StepNumbers


class Clock:
    """Time that a test moves."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("pellucid.training.meter.time", clock)
    return clock


def numbers(loss: float, blocked: float = 0.0) -> StepNumbers:
    parts = {"loss_nats": torch.tensor(loss)}
    return StepNumbers(parts=parts, grad_norm=torch.tensor(2.5), blocked=torch.tensor(blocked))


def test_each_update_is_read_once_by_name() -> None:
    meter = Meter(3, wait=lambda: None)
    assert meter.read()[0] == []
    for loss in (1.5, 3.0):
        meter.add(numbers(loss), 10)
    meter.add(numbers(0.5, blocked=1.0), 10)
    assert meter.filled == 3
    rows, *_ = meter.read()
    assert rows == [
        {"blocked": 0.0, "grad_norm": 2.5, "loss_nats": 1.5},
        {"blocked": 0.0, "grad_norm": 2.5, "loss_nats": 3.0},
        {"blocked": 1.0, "grad_norm": 2.5, "loss_nats": 0.5},
    ]
    assert meter.filled == 0
    meter.add(numbers(4.0), 10)
    assert [row["loss_nats"] for row in meter.read()[0]] == [4.0]


def test_the_speed_is_tokens_per_second_of_training(clock: Clock) -> None:
    meter = Meter(4, wait=lambda: None)
    assert meter.read() == ([], 0.0, 0.0)  # no time has passed
    for n_tokens in (10, 20):
        meter.add(numbers(1.0), n_tokens)
    clock.now += 2.0
    meter.pause()
    clock.now += 50.0  # an evaluation
    meter.resume()
    clock.now += 1.0
    assert meter.read()[1] == pytest.approx(30 / 3)
    meter.add(numbers(1.0), 8)
    clock.now += 4.0
    assert meter.read()[1] == pytest.approx(8 / 4)


def test_a_lap_lasts_from_the_last_lap_or_reading_and_waits_for_the_device(clock: Clock) -> None:
    wait_times: list[float] = []

    def wait() -> None:
        clock.now += 1.0
        wait_times.append(clock.now)

    meter = Meter(4, wait=wait)
    clock.now += 2.0
    assert meter.lap() == pytest.approx(3.0)
    meter.pause()
    clock.now += 50.0
    meter.resume()
    clock.now += 4.0
    assert meter.lap() == pytest.approx(5.0)
    meter.add(numbers(1.0), 16)
    assert meter.read()[1] == pytest.approx(16 / 8)
    clock.now += 6.0
    assert meter.lap() == pytest.approx(7.0)
    assert len(wait_times) == 3
