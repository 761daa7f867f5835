"""The objectives that predict tokens, and the loss they share."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from pellucid.batches import IGNORED, LanguageModel, Loss, PairBatch, TokenBatch
from pellucid.maths.divergences import entropy_of_logits
from pellucid.objectives.chunks import LazyLogits, in_chunks, supervised
from pellucid.objectives.linear_cross_entropy import linear_cross_entropy


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLoss:
    """-sum_i y_i log p_i + z_loss (log Z)^2 - entropy_bonus H(p), a mean over supervised tokens.

    Parts: `loss_nats`, the plain -log p of the target without smoothing and penalties; `log_z`;
    `accuracy`, the share of tokens whose target has the largest logit; with a bonus also `entropy`,
    in nats per token.

    Attributes:
        label_smoothing: the share of each target that goes to all words evenly, from 0 to 1.
        z_loss: the weight of (log Z)^2.
        entropy_bonus: the weight of the entropy.
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
        """The share of these targets in a mean over `n_supervised`.

        Args:
            model: has the output head.
            hidden: (batch, time, d_model), its last hidden states.
            targets: (batch, time), the token ids to predict, or `IGNORED`.
            n_supervised: the number of targets of the whole update.
        """
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


class _Penalised:
    """Takes the arguments of `TokenLoss`."""

    def __init__(
        self, *, label_smoothing: float = 0.0, z_loss: float = 0.0, entropy_bonus: float = 0.0
    ) -> None:
        self.loss = TokenLoss(
            label_smoothing=label_smoothing, z_loss=z_loss, entropy_bonus=entropy_bonus
        )


class NextToken(_Penalised):
    """Predict each token from those before it: -sum_t log p(x_t+1 | x_1 ... x_t) / tokens.

    It takes the arguments of `TokenLoss`.

    Source:
        Bengio et al. 2003, "A Neural Probabilistic Language Model", eq. 1.
    See also:
        `pellucid.maths.cross_entropy`.
    """

    def __call__(self, model: LanguageModel, batch: TokenBatch) -> Loss:
        """The batch's share of the mean over supervised tokens; parts as in `TokenLoss`."""
        hidden = model.hidden_states(batch.ids, documents=batch.documents, padding=batch.padding)
        return self.loss(model, hidden, batch.targets, batch.n_supervised)


class MLM:
    """Predict masked tokens from both sides: -sum_t log p(x_t | the masked text) / masked tokens.

    Source:
        Devlin et al. 2018, "BERT: Pre-training of Deep Bidirectional Transformers for Language
        Understanding", section 3.1, task 1.
    See also:
        `pellucid.maths.cross_entropy`.
    """

    def __init__(self) -> None:
        self.loss = TokenLoss()

    def __call__(self, model: LanguageModel, batch: TokenBatch) -> Loss:
        """The batch's share of the mean over masked tokens; parts as in `TokenLoss`."""
        hidden = model.hidden_states(batch.ids, documents=batch.documents, padding=batch.padding)
        return self.loss(model, hidden, batch.targets, batch.n_supervised)


class Seq2Seq(_Penalised):
    """Predict a target text y from a source x: -sum_t log p(y_t | y_1 ... y_t-1, x) / tokens of y.

    The model reads the true earlier tokens of y. It takes the arguments of `TokenLoss`.

    Source:
        Sutskever, Vinyals and Le 2014, "Sequence to Sequence Learning with Neural Networks",
        section 3.2; Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified
        Text-to-Text Transformer", section 3.1.4 (spans).
    See also:
        `pellucid.maths.cross_entropy`.
    """

    def __call__(self, model: LanguageModel, batch: PairBatch) -> Loss:
        """The batch's share of the mean over supervised tokens; parts as in `TokenLoss`."""
        encoded = model.encode(batch.source, padding=batch.source_padding)
        hidden = model.hidden_states(batch.ids, encoded=encoded)
        return self.loss(model, hidden, batch.targets, batch.n_supervised)


def token_entropy(lazy: LazyLogits, targets: Int[Tensor, " tokens"]) -> Float[Tensor, " tokens"]:
    """The entropy of each prediction, in nats; 0 where the target is ignored."""
    (entropy,) = in_chunks(_entropy, [lazy], targets)
    return entropy


def _entropy(logits: Tensor, targets: Tensor) -> tuple[Tensor]:
    return (supervised(entropy_of_logits(logits), targets),)
