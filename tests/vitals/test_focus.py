"""The power of a focal loss over tokens, read from the gradient of a trained model's logits."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from pellucid.diagnosis.finding import limit
from pellucid.vitals.ledger.focus import focus_of_places

PLACES, VOCAB = 32, 50


def gradient_of(power: float, confidence: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradient of (1 - p)^power (-log p) for a model that knows some targets; its logits."""
    draws = torch.Generator().manual_seed(0)
    targets = torch.randint(VOCAB, (PLACES,), generator=draws)
    logits = torch.randn(PLACES, VOCAB, generator=draws)
    known = confidence * torch.rand(PLACES, generator=draws)
    logits[torch.arange(PLACES), targets] += known
    logits.requires_grad_()
    loss = cross_entropy(logits, targets, reduction="none")
    ((1 - (-loss).exp()) ** power * loss).mean().backward()
    assert logits.grad is not None
    return logits.grad, logits.detach()


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, 5.0])
def test_the_powers_in_use_are_below_the_limit(power: float) -> None:
    assert float(focus_of_places(*gradient_of(power, 6.0))) < limit("LOS013", "focus")


def test_a_power_of_thirty_is_above_it() -> None:
    assert float(focus_of_places(*gradient_of(30.0, 6.0))) > limit("LOS013", "focus")


def test_before_anything_is_known_no_power_shows() -> None:
    logits = torch.zeros(PLACES, VOCAB)
    gradient = torch.full((PLACES, VOCAB), 1.0 / VOCAB)
    gradient[:, 0] -= 1
    assert float(focus_of_places(gradient, logits)) == 0
