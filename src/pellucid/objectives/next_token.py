"""Predict each token from those before it."""

from __future__ import annotations

from pellucid.batches import LanguageModel, Loss, TokenBatch
from pellucid.objectives.token_loss import TokenLoss


class NextToken:
    """-sum_t log p(x_t+1 | x_1 ... x_t) / tokens, with what `TokenLoss` can add to it.

    Source:
        Bengio et al. 2003, "A Neural Probabilistic Language Model", eq. 1.
    See also:
        `pellucid.maths.cross_entropy`.
    """

    def __init__(
        self, *, label_smoothing: float = 0.0, z_loss: float = 0.0, entropy_bonus: float = 0.0
    ) -> None:
        self.loss = TokenLoss(
            label_smoothing=label_smoothing, z_loss=z_loss, entropy_bonus=entropy_bonus
        )

    def __call__(self, model: LanguageModel, batch: TokenBatch) -> Loss:
        """The batch's share of the mean over supervised tokens; parts as in `TokenLoss`."""
        hidden = model.hidden_states(batch.ids, documents=batch.documents, padding=batch.padding)
        return self.loss(model, hidden, batch.targets, batch.n_supervised)
