"""By which power of its doubt a loss weighs its places, read from its gradient by the logits."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.vitals.call.place_weights import UNCERTAIN, names_targets

#: Fewer places say nothing; their ln(1 - p) spreads so much; and a line explains so much.
_FEWEST, _SPREAD, _LINE = 12, 0.03, 0.8


def focus_of_places(
    gradient: Float[Tensor, "places vocab"], logits: Float[Tensor, "places vocab"]
) -> Float[Tensor, ""]:
    """The slope of ln w over ln(1 - p) at the targets: 0 of a mean, the power of a focal loss.

    0 too where the weights follow no such line, and where p is alike everywhere.

    Args:
        gradient: Of the loss by the logits, at some places.
        logits: The logits there.

    Source:
        Lin et al. 2017 (1708.02002), "Focal Loss for Dense Object Detection".
    """
    g, z = gradient.float(), logits.float()
    raises, lowers = names_targets(g)
    y = g.argmin(-1, keepdim=True)
    doubt = 1 - (z.gather(-1, y)[:, 0] - z.logsumexp(-1)).exp()
    weights = -g.gather(-1, y)[:, 0] / doubt.clamp_min(UNCERTAIN)
    counts = (raises & ~lowers & (weights > 0) & (doubt > UNCERTAIN)).double()
    x, w = (torch.where(counts > 0, v.double(), 1.0).log() for v in (doubt, weights))
    n = counts.sum().clamp_min(1)
    x, w = ((v - (v * counts).sum() / n) * counts for v in (x, w))
    xx, ww, xw = x.square().sum(), w.square().sum(), (x * w).sum()
    is_line = (xw.square() > _LINE * xx * ww) & (xx > _SPREAD**2 * n) & (n >= _FEWEST)
    return torch.where(is_line, xw / xx.clamp_min(1e-300), 0.0)
