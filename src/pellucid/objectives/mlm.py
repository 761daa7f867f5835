"""Predict masked tokens from the text on both sides."""

from __future__ import annotations

from pellucid.batches import LanguageModel, Loss, TokenBatch
from pellucid.objectives.token_loss import TokenLoss


class MLM:
    """-sum_t log p(x_t | the text with x_t hidden) / hidden tokens.

    Source:
        Devlin et al. 2018, "BERT: Pre-training of Deep Bidirectional Transformers for Language
        Understanding", section 3.1, task 1.
    See also:
        `pellucid.maths.cross_entropy`.
    """

    def __init__(self) -> None:
        self.loss = TokenLoss()

    def __call__(self, model: LanguageModel, batch: TokenBatch) -> Loss:
        """The batch's share of the mean over hidden tokens; parts as in `TokenLoss`."""
        hidden = model.hidden_states(batch.ids, documents=batch.documents, padding=batch.padding)
        return self.loss(model, hidden, batch.targets, batch.n_supervised)
