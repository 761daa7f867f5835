"""Predict each token from those before it.

Comes in: a model and a batch whose targets are its ids, one place on. Goes out: nats per token. It
does not know how the batch was cut from the text.
"""

from __future__ import annotations

from pellucid.batches import IGNORED, LanguageModel, Loss, TokenBatch
from pellucid.objectives.linear_cross_entropy import head_cross_entropy


class NextToken:
    """-sum_t log p(x_t+1 | x_1 ... x_t) / tokens, with optional label smoothing and z-loss.

    Source:
        Bengio et al. 2003, "A Neural Probabilistic Language Model", eq. 1.
    See also:
        `pellucid.maths.cross_entropy`.
    """

    def __init__(self, *, label_smoothing: float = 0.0, z_loss: float = 0.0) -> None:
        self.label_smoothing = label_smoothing
        self.z_loss = z_loss

    def __call__(self, model: LanguageModel, batch: TokenBatch) -> Loss:
        """The batch's share of the mean over supervised tokens; parts: `loss_nats`, `log_z`.

        `loss_nats` is the plain cross-entropy, comparable whatever the smoothing and penalty.
        """
        result = head_cross_entropy(
            model,
            batch,
            divisor=batch.n_supervised,
            label_smoothing=self.label_smoothing,
            z_loss=self.z_loss,
        )
        supervised = batch.targets.flatten() != IGNORED
        parts = {
            "loss_nats": result.token_losses.sum() / batch.n_supervised,
            "log_z": (result.log_z * supervised).sum() / batch.n_supervised,
        }
        return Loss(total=result.loss, parts=parts)
