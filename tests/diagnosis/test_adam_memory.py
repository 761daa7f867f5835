"""What Adam remembers says how large its steps are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pellucid.diagnosis import Facts, History, diagnose
from pellucid.diagnosis.history.adam_state import remembered_step

CHANCE = (0.1 / 1.9) ** 0.5


def _trained(scale: float = 1.0) -> torch.optim.Optimizer:
    """AdamW after 100 random gradients; its squares are multiplied by `scale`."""
    generator = torch.Generator().manual_seed(0)
    weight = nn.Parameter(torch.zeros(64, 64))
    optimiser = torch.optim.AdamW([weight], lr=1e-3, betas=(0.9, 0.95))
    for _ in range(100):
        weight.grad = torch.randn(64, 64, generator=generator)
        optimiser.step()
    optimiser.state[weight]["exp_avg_sq"].mul_(scale)
    return optimiser


def test_random_gradients_give_the_step_of_chance() -> None:
    # squares of 39 gradients on average: their reciprocal is some percent larger than 1
    assert remembered_step(_trained()) == pytest.approx(CHANCE, rel=0.15)


def test_a_loss_scale_in_the_state_divides_the_step() -> None:
    whole, scaled = remembered_step(_trained()), remembered_step(_trained(1e8))
    assert whole is not None
    assert scaled == pytest.approx(whole * 1e-4, rel=1e-3)


def test_an_optimiser_without_squares_has_no_step_of_this_kind() -> None:
    assert remembered_step(torch.optim.SGD([nn.Parameter(torch.zeros(4, 4))], lr=1.0)) is None


def _codes(step: float, end: float, late: float | None = 1.0) -> list[str]:
    facts = Facts(betas=(0.9, 0.95), remembered_step=step, unigram=3.3, vocab_size=256)
    losses = tuple((i, max(end, 5.5 - 0.1 * i)) for i in range(1, 151))
    norms = tuple((i, 1.0 if i < 50 else late) for i in range(1, 151, 10)) if late else ()
    found = diagnose(History(name="run", losses=losses, grad_norms=norms, facts=facts))
    return [finding.code for finding in found if finding.severity not in ("note", "calm")]


def test_a_plateau_with_a_swollen_memory_is_no_fault_of_the_data() -> None:
    assert _codes(1e-3, 3.3)[:1] == ["OPT008"]


def test_gradients_that_vanished_are_no_fault_of_the_memory() -> None:
    assert "OPT008" not in _codes(1e-3, 3.3, late=1e-3)


def test_a_memory_is_a_note_if_gradients_were_hardly_seen() -> None:
    assert "OPT008" not in _codes(1e-3, 3.3, late=None)


def test_steps_of_chance_leave_a_plateau_to_the_data() -> None:
    assert "OPT008" not in _codes(CHANCE, 3.3)


def test_vanished_gradients_of_what_is_learnt_are_sound() -> None:
    assert "OPT008" not in _codes(1e-3, 0.2)
