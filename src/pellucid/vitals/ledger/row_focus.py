"""By which power of their doubt the rows of a class weigh, read from a gradient by the logits."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.vitals.call.place_weights import UNCERTAIN, target_weights
from pellucid.vitals.ledger.pulls import known_classes

#: Fewer rows say nothing; and a line explains so much of the logarithms of their weights.
_FEWEST, _LINE = 16, 0.9


def focus_sums(
    gradient: Float[Tensor, "rows classes"],
    logits: Float[Tensor, "rows classes"],
    labels: Int[Tensor, " rows"],
) -> Float[Tensor, "6 classes"]:
    """For each class the sums of 1, x, y, x x, y y and x y, with x = ln(1 - p) and y = ln w.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
        labels: The class of each row.
    """
    n_classes = gradient.shape[-1]
    is_class, classes = known_classes(labels, n_classes)
    p = logits.double().softmax(-1)
    weights = target_weights(gradient.double(), p, classes)
    doubt = 1 - p.gather(-1, classes[:, None])[:, 0]
    counts = is_class & (weights > 0) & (doubt > UNCERTAIN)
    x = torch.where(counts, doubt, 1.0).log()
    y = torch.where(counts, weights, 1.0).log()
    sums = gradient.new_zeros((6, n_classes), dtype=torch.float64)
    for total, part in zip(sums, (counts.double(), x, y, x * x, y * y, x * y), strict=True):
        total.index_add_(0, classes, part)
    return sums


def focus(sums: Float[Tensor, "6 classes"]) -> Float[Tensor, ""]:
    """The power of 1 - p by which rows of a class weigh; 0 if they do not follow it.

    Args:
        sums: What `focus_sums` gives, added up over some updates.
    """
    n = sums[0].clamp_min(1)
    xx, yy, xy = (
        (sums[i] - sums[j] * sums[k] / n).sum() for i, j, k in ((3, 1, 1), (4, 2, 2), (5, 1, 2))
    )
    is_line = (xy.square() > _LINE * xx * yy) & (xx > 0) & (sums[0].sum() >= _FEWEST)
    return torch.where(is_line, xy / xx.clamp_min(1e-300), 0.0)
