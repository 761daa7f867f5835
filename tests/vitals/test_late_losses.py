"""A loss that a loop passes after its step is that of the update that ended."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pellucid.diagnosis import history_of_watch
from pellucid.vitals import watch
from support.foreign import ids_of, loss_of, made

PARTS = 3


@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize("every", [1, 4])
def test_each_loss_is_recorded_with_its_own_update(*, is_late: bool, every: int) -> None:
    model, losses = made(), list[tuple[int, float]]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with watch(model, optimizer) as w:
        for step in range(1, 41):
            optimizer.zero_grad()
            loss = loss_of(model, ids_of(step))
            loss.backward()
            is_passed = step % every == 0
            if is_passed and not is_late:
                w.step(loss)
            optimizer.step()
            if is_passed:
                losses.append((step, loss.item()))
                if is_late:
                    w.step(loss.item())
    assert w.guard.off == {}
    recorded = [point for point in history_of_watch(w).losses if point[0] % every == 0]
    assert [step for step, _ in recorded] == [step for step, _ in losses]
    assert [loss for _, loss in recorded] == pytest.approx([loss for _, loss in losses])


def test_the_last_part_of_an_update_may_be_passed_after_its_step() -> None:
    model, means = made(), list[float]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with watch(model, optimizer) as w:
        for step in range(20):
            parts: list[Tensor] = []
            for part in range(PARTS):
                parts.append(loss_of(model, ids_of(PARTS * step + part)))
                (parts[-1] / PARTS).backward()
                if part == PARTS - 1:
                    optimizer.step()
                    optimizer.zero_grad()
                w.step(parts[-1].detach())
            means.append(float(torch.stack(parts).detach().mean()))
    assert [loss for _, loss in history_of_watch(w).losses] == pytest.approx(means)


@pytest.mark.parametrize("is_passed", [True, False])
def test_a_loss_that_is_only_logged_counts_where_none_is_passed(*, is_passed: bool) -> None:
    model = made()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with watch(model, optimizer) as w:
        for step in range(1, 21):
            optimizer.zero_grad()
            loss = loss_of(model, ids_of(step))
            loss.backward()
            optimizer.step()
            if is_passed:
                w.step(loss)
            if step % 5 == 0:
                w.log({"loss": 100.0 + step})
    losses = history_of_watch(w).losses
    assert len(losses) == (20 if is_passed else 4)
    assert ([value for _, value in losses] == [105.0, 110.0, 115.0, 120.0]) == (not is_passed)
