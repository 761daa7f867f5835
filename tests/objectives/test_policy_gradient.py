"""The loss of a policy against its equation: rewards, the penalties for leaving, the bonus."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor

from pellucid import maths
from pellucid.objectives import PolicyGradient
from support.objectives import decoder, rollout_batch

Penalty = Literal["in_reward", "k2", "k3"]


def answers(temperature: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """log pi of each token, the log of the ratio to the reference, and the entropies."""
    batch = rollout_batch()
    is_target = batch.targets != -100
    all_log_p = maths.log_softmax(decoder()(batch.ids) / temperature)
    log_p = all_log_p.gather(-1, batch.targets.clamp(min=0)[..., None])[..., 0] * is_target
    entropies = -(all_log_p.exp() * all_log_p).sum(-1) * is_target
    return log_p, batch.reference_log_p - log_p, entropies


@pytest.mark.parametrize("kl", ["in_reward", "k2", "k3"])
def test_the_loss_is_the_weighted_log_p_and_the_penalty_of_whole_answers(kl: Penalty) -> None:
    batch = rollout_batch()
    log_p, log_ratio, _ = answers()
    penalties = {
        "in_reward": torch.zeros(4, dtype=torch.float64),
        "k2": log_ratio.sum(-1) ** 2 / 2,
        "k3": (log_ratio.exp() - 1 - log_ratio).sum(-1),
    }
    expected = (-batch.advantages * log_p.sum(-1) + 0.3 * penalties[kl]).mean()
    loss = PolicyGradient(beta=0.3, kl=kl)(decoder(), batch)
    torch.testing.assert_close(loss.total, expected)
    assert "entropy" not in loss.parts
    assert "kl_exact" not in loss.parts


def test_the_parts_are_sums_over_the_tokens_of_an_answer() -> None:
    batch = rollout_batch()
    log_p, log_ratio, _ = answers()
    parts = PolicyGradient(beta=0.3, kl="k2")(decoder(), batch).parts
    expected = {
        "loss_nats": -log_p.sum() / 4,
        "reward": batch.rewards.mean(),
        "kl_k1": -log_ratio.sum() / 4,
        "kl_k2": (log_ratio**2 / 2).sum() / 4,
        "kl_k3": (log_ratio.exp() - 1 - log_ratio).sum() / 4,
    }
    torch.testing.assert_close(dict(parts), expected)


def test_the_bonus_lowers_the_loss_by_the_entropy_at_the_temperature_of_the_samples() -> None:
    batch = rollout_batch()
    plain = PolicyGradient(beta=0.0, kl="in_reward", temperature=2.0)(decoder(), batch)
    loss = PolicyGradient(beta=0.0, kl="in_reward", temperature=2.0, entropy_bonus=0.2)(
        decoder(), batch
    )
    log_p, _, entropies = answers(temperature=2.0)
    torch.testing.assert_close(plain.total, (-batch.advantages * log_p.sum(-1)).mean())
    torch.testing.assert_close(loss.parts["entropy"], entropies.sum() / 4)
    torch.testing.assert_close(loss.total, plain.total - 0.2 * entropies.sum() / 4)
