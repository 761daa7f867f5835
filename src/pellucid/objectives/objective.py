"""What the training loop asks of every objective.

Comes in: a model and a batch. Goes out: a loss. It does not know any particular objective.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pellucid.batches import LanguageModel, Loss, TokenBatch


@runtime_checkable
class Objective(Protocol):
    """A loss that can be added up over micro-batches."""

    def __call__(self, model: LanguageModel, batch: TokenBatch, n_supervised: int) -> Loss:
        """The batch's share of the mean over `n_supervised` tokens: sums over parts of a batch.

        Dividing by the whole update's number of supervised tokens, and not by this batch's, makes
        accumulated gradients equal those of one large batch.
        """
        ...
