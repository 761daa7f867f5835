"""The loss of a plain text, written down apart from the code that explains it."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def plain_loss(logits: Tensor, ids: Tensor) -> Tensor:
    """The mean of -log p of each token but the first; `logits` (time, vocab), `ids` (time,)."""
    wide = logits if logits.element_size() == 8 else logits.float()
    return F.cross_entropy(wide[:-1], ids[1:])
