"""While nothing is due a watch is idle: it costs next to none, and misses nothing of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.vitals import watch
from pellucid.vitals.ledger.writes import Writes
from pellucid.vitals.taps.first_batch import FirstBatch

UPDATES = 200


class Model(nn.Module):
    """Gives its loss with its logits, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(20, 8), nn.Linear(8, 20)

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.head(self.table(input_ids))
        return {"loss": nn.functional.cross_entropy(logits[:, 0], labels), "logits": logits}


class Loop:
    """A loop whose watch has a budget that pays for the first readings alone."""

    def __init__(self, *, passes_loss: bool, between: Callable[[Loop, int], None]) -> None:
        torch.manual_seed(0)
        self.model = Model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.losses: list[float] = []
        with watch(self.model, self.optimizer, max_overhead=1e-9) as self.watch:
            for step in range(1, UPDATES + 1):
                loss = self.loss()
                loss.backward()
                self.losses.append(loss.item())
                if passes_loss:
                    self.watch.step(loss)
                self.optimizer.step()
                self.optimizer.zero_grad()
                between(self, step)

    def loss(self) -> Tensor:
        return self.model(torch.randint(20, (4, 1)), torch.randint(20, (4,)))["loss"]


def nothing(loop: Loop, step: int) -> None:
    """Do nothing."""


@pytest.mark.parametrize("passes_loss", [True, False])
def test_every_loss_and_rate_is_recorded(passes_loss: bool) -> None:
    loop = Loop(passes_loss=passes_loss, between=nothing)
    record = loop.watch.state.judge.record
    assert [point.step for point in record.losses.points] == list(range(1, UPDATES + 1))
    assert [point.value for point in record.losses.points] == loop.losses
    assert [point.step for point in record.rates.points] == list(range(1, UPDATES + 1))


def test_calls_and_writes_are_seen() -> None:
    def between(loop: Loop, step: int) -> None:
        if step in (150, 170):
            with torch.no_grad():
                for weight in loop.model.parameters():
                    weight.mul_(2)
        if step == 180:
            for _ in range(5):
                loop.loss()

    loop = Loop(passes_loss=True, between=between)
    assert loop.watch.state.calls == (0, 6)  # five and the update's own
    written = loop.watch.state.judge.record.signs["update.written"].points
    assert [point.step for point in written if point.value > 10] == [171]


def test_most_updates_are_idle_once_the_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    real = FirstBatch._on_call

    def on_call(self: FirstBatch, *args: Any) -> None:
        nonlocal calls
        calls += 1
        real(self, *args)

    monkeypatch.setattr(FirstBatch, "_on_call", on_call)
    Loop(passes_loss=True, between=nothing)
    assert calls < UPDATES / 2


def test_a_paid_reading_ends_the_idle_spell() -> None:
    def between(loop: Loop, step: int) -> None:
        if step == 150:
            loop.watch._schedule.share = None
            for budget in loop.watch._schedule._budgets.values():
                budget._share = None

    loop = Loop(passes_loss=True, between=between)
    norms = loop.watch.state.judge.record.norms.points
    assert {point.step for point in norms if point.step > 160} >= {170, 180, 190, 200}
    repeats = loop.watch.state.judge.record.signs["batch.repeats"].points
    assert any(point.step > 160 for point in repeats)


def test_what_raises_in_an_idle_spell_ends_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def boom(*_: object) -> None:
        raise RuntimeError("on purpose")

    def between(loop: Loop, step: int) -> None:
        if step == 153:
            assert loop.watch._idle_spell.is_on
            monkeypatch.setattr(Writes, "begin", boom)

    loop = Loop(passes_loss=True, between=between)
    assert len(loop.losses) == UPDATES
    assert list(loop.watch.guard.off) == ["updates"]
