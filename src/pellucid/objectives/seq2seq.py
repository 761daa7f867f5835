"""Predict a target text from a source text."""

from __future__ import annotations

from pellucid.batches import LanguageModel, Loss, PairBatch
from pellucid.objectives.token_loss import TokenLoss


class Seq2Seq:
    """-sum_t log p(y_t | y_1 ... y_t-1, x) / tokens of y: each true token is given the true ones.

    Source:
        Sutskever, Vinyals and Le 2014, "Sequence to Sequence Learning with Neural Networks",
        section 3.2; Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified
        Text-to-Text Transformer", section 3.1.4 (spans).
    See also:
        `pellucid.maths.cross_entropy`.
    """

    def __init__(
        self, *, label_smoothing: float = 0.0, z_loss: float = 0.0, entropy_bonus: float = 0.0
    ) -> None:
        self.loss = TokenLoss(
            label_smoothing=label_smoothing, z_loss=z_loss, entropy_bonus=entropy_bonus
        )

    def __call__(self, model: LanguageModel, batch: PairBatch) -> Loss:
        """The batch's share of the mean over supervised tokens; parts as in `TokenLoss`."""
        encoded = model.encode(batch.source, padding=batch.source_padding)
        hidden = model.hidden_states(batch.ids, encoded=encoded)
        return self.loss(model, hidden, batch.targets, batch.n_supervised)
