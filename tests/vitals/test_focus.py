"""The power of a focal loss over tokens, read from the gradient of a trained model's logits."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from pellucid.diagnosis.finding import limit
from pellucid.vitals.ledger.focus import ease, ease_sums, focus_of_places

PLACES, VOCAB = 32, 50
ROWS, CLASSES = 12, 4


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


def ease_of(loss: str, spread: float = 2.0) -> float:
    """The power of p by which rows of one class each weigh in a loss, of two batches."""
    total = torch.zeros(())
    for seed in range(2):
        draws = torch.Generator().manual_seed(seed)
        labels = torch.randint(CLASSES, (ROWS,), generator=draws)
        logits = (spread * torch.randn(ROWS, CLASSES, generator=draws)).requires_grad_()
        log_p = logits.log_softmax(-1).gather(-1, labels[:, None])[:, 0]
        p = log_p.exp()
        values = {
            "plain": -log_p,
            "turned round": log_p,
            "focal": -((1 - p) ** 2) * log_p,
            "easy": -(p**2) * log_p,
            "steep": -(p**4) * log_p,
            "robust": (1 - p**0.7) / 0.7,
            "probability": -p,
            "unlikely": -(1 - p).log(),
            "half unlikely": torch.where(labels > 1, -log_p, -(1 - p).clamp_min(1e-6).log()),
        }[loss]
        values.mean().backward()
        assert logits.grad is not None
        total = total + ease_sums(logits.grad, logits.detach())
    return float(ease(total))


@pytest.mark.parametrize(("loss", "power"), [("easy", 2.0), ("steep", 4.0)])
def test_a_focal_loss_of_p_has_its_power(loss: str, power: float) -> None:
    assert ease_of(loss) == power


@pytest.mark.parametrize(
    "loss",
    ["plain", "turned round", "focal", "robust", "probability", "unlikely", "half unlikely"],
)
@pytest.mark.parametrize("spread", [0.02, 0.5, 2.0, 6.0])
def test_no_other_loss_has_one(loss: str, spread: float) -> None:
    assert ease_of(loss, spread) == 0
