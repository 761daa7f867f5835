"""A training that runs: causes are asked for when signs stay sick, and it stops where asked to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from pellucid.diagnosis.live_causes import Live
from pellucid.errors import ConfigError
from pellucid.model import assemble
from pellucid.vitals import watch
from support.faults import mean_loss, next_tokens, text, tiny


def trained(rate: float, action: Any, steps: int = 60) -> tuple[Live, int]:
    """A loop of one's own, watched; how many updates it did."""
    model: nn.Module = assemble(tiny("nano"), seed=0).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    live, done = Live(action), 0
    with watch(model, optimizer, max_overhead=None) as w:
        live.listen_to(w)
        for step in range(steps):
            ids = text(rows=8, seed=step)
            loss = mean_loss(model(ids), next_tokens(ids))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.step(loss)
            done += 1
            if live.is_over:
                break
    return live, done


def test_training_with_a_fault_is_stopped_where_asked_to() -> None:
    live, done = trained(30.0, "stop")
    assert done < 60
    codes = {each.code for each in live.findings()}
    assert codes & {"OPT005", "OPT006"}, live.report()
    assert "what to do:" in live.report()


def test_training_with_a_fault_goes_on_where_it_is_only_told() -> None:
    assert trained(30.0, "tell")[1] == 60


def test_healthy_training_is_not_stopped() -> None:
    live, done = trained(1e-3, "stop")
    assert done == 60
    assert [each.text() for each in live.findings() if each.severity != "note"] == []


def test_other_actions_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be 'tell' or 'stop'"):
        Live("panic")  # type: ignore[arg-type]
