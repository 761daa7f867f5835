"""What the training loop asks of every objective."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from pellucid.batches import Loss


@runtime_checkable
class Objective(Protocol):
    """A loss that can be added up over micro-batches.

    Each objective takes its own kind of batch; what feeds it makes that kind and no other.
    """

    def __call__(self, model: Any, batch: Any) -> Loss:
        """The batch's share of the mean over the update's `n_supervised` terms.

        Dividing by the whole update's number, and not by this part's, makes accumulated gradients
        equal those of one large batch.
        """
        ...
