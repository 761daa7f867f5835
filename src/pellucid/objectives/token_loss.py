"""The loss of every objective that predicts tokens: cross-entropy, smoothing, z-loss, entropy."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from pellucid.batches import IGNORED, LanguageModel, Loss
from pellucid.maths.divergences import entropy_of_logits
from pellucid.objectives.chunks import LazyLogits, in_chunks, supervised
from pellucid.objectives.linear_cross_entropy import linear_cross_entropy


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLoss:
    """-sum_i y_i log p_i + z_loss (log Z)^2 - entropy_bonus H(p), a mean over supervised tokens.

    Parts: `loss_nats`, the plain -log p of the target, whatever the smoothing and penalties;
    `log_z`; `accuracy`, the share of tokens whose target no logit exceeds; with a bonus `entropy`,
    in nats per token.
    """

    label_smoothing: float = 0.0
    z_loss: float = 0.0
    entropy_bonus: float = 0.0

    def __call__(
        self,
        model: LanguageModel,
        hidden: Float[Tensor, "batch time d_model"],
        targets: Int[Tensor, "batch time"],
        n_supervised: int,
    ) -> Loss:
        """The share of these targets in a mean over `n_supervised`."""
        lazy, flat = LazyLogits.from_model(model, hidden), targets.flatten()
        result = linear_cross_entropy(
            lazy.hidden,
            lazy.weight,
            flat,
            divisor=n_supervised,
            bias=lazy.bias,
            soft_cap=lazy.soft_cap,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
        )
        total = result.loss
        parts = {
            "loss_nats": result.token_losses.sum() / n_supervised,
            "log_z": (result.log_z * (flat != IGNORED)).sum() / n_supervised,
            "accuracy": result.hits.sum() / n_supervised,
        }
        if self.entropy_bonus:
            entropy = token_entropy(lazy, flat).sum() / n_supervised
            total = total - self.entropy_bonus * entropy
            parts["entropy"] = entropy.detach()
        return Loss(total=total, parts=parts)


def token_entropy(lazy: LazyLogits, targets: Int[Tensor, " tokens"]) -> Float[Tensor, " tokens"]:
    """The entropy of each prediction, in nats; 0 where nothing is predicted."""
    (entropy,) = in_chunks(_entropy, [lazy], targets)
    return entropy


def _entropy(logits: Tensor, targets: Tensor) -> tuple[Tensor]:
    return (supervised(entropy_of_logits(logits), targets),)
