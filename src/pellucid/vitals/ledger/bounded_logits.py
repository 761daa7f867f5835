"""Logits that cannot be larger than a bound: a soft cap of 1, a sigmoid or a tanh.

Logits within a range R give no token of V more than 1 / (1 + (V - 1) exp(-R)). Where that is too
little, training pushes likely tokens against the upper end and all others against the lower one. A
bound between the model and the loss shows in the gradient instead: it takes from likely tokens the
pull that a softmax has on them.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.vitals.call.place_weights import names_targets

#: So near to an end of the range, in parts of it, a logit stands at the end.
_END_SHARE = 0.05
#: More tokens of a place than these at the upper end, and this share of all at the lower one, are
#: a crowd. Unbounded logits have one token at the top, or two, and at most a fifth at the bottom
#: (what a text never has), by our measurements.
_CROWD, _LOWER_SHARE = 4.0, 0.25
#: Outputs of fewer numbers are no logits of tokens; a smaller range is that of a head of zeros.
_FEWEST_TOKENS, _LEAST_RANGE = 16, 0.5
#: Fewer places say nothing, and so many of the likeliest tokens of each are read.
_FEWEST_PLACES, _LIKELIEST = 8, 64
#: Logits that are closer together say nothing of how the pull changes with them.
_SPREAD = 0.01


def highest_probability(logits: Float[Tensor, "places vocab"]) -> Float[Tensor, ""]:
    """The most that the range of logits leaves a token, if logits crowd at both ends; 1 if not."""
    z = logits.float()
    lowest, highest = z.amin(), z.amax()
    reach = highest - lowest
    n_upper = (z > highest - _END_SHARE * reach).sum(-1).float().mean()
    lower_share = (z < lowest + _END_SHARE * reach).float().mean()
    is_crowded = (n_upper >= _CROWD) & (lower_share >= _LOWER_SHARE)
    is_known = (z.shape[-1] > _FEWEST_TOKENS) & (reach > _LEAST_RANGE) & reach.isfinite()
    p_most = 1 / (1 + (z.shape[-1] - 1) * (-reach).exp())
    return torch.where(is_crowded & is_known, p_most, 1.0)


def pull_on_likely_tokens(
    gradient: Float[Tensor, "places vocab"], logits: Float[Tensor, "places vocab"]
) -> Float[Tensor, ""]:
    """By which power of exp(z) a loss pushes likely tokens down, the middle place.

    ln g of a token that is no target is z + a constant of its place under a softmax, and z / T +
    a constant under one that divides by T. Under f(z) it is f(z) + ln f'(z) + a constant, which
    falls where f comes near to its bound. It is 1 too where few places pull one token each.

    Args:
        gradient: Of the loss by the logits, at some places.
        logits: The logits there.
    """
    g, z = gradient.float(), logits.float()
    raises, lowers = names_targets(g)
    is_other = torch.ones_like(g, dtype=torch.bool).scatter_(-1, g.argmin(-1, keepdim=True), False)
    is_pushed = is_other & (g > 0)
    top = z.masked_fill(~is_pushed, -math.inf).topk(min(_LIKELIEST, z.shape[-1])).indices
    is_read = is_pushed.gather(-1, top)
    x, y = _centred(z.gather(-1, top), is_read), _centred(g.gather(-1, top).log(), is_read)
    xx, n_read = x.square().sum(-1), is_read.sum(-1)
    is_known = raises & ~lowers & (n_read >= _FEWEST_PLACES) & (xx > _SPREAD**2 * n_read)
    slopes = ((x * y).sum(-1) / xx).masked_fill(~is_known, torch.nan)
    return torch.where(is_known.sum() >= _FEWEST_PLACES, slopes.nanmedian(), 1.0)


def _centred(x: Float[Tensor, "places n"], is_read: Bool[Tensor, "places n"]) -> Tensor:
    """Numbers without the mean of those that are read; the others are 0."""
    x = torch.where(is_read, x, 0.0)
    mean = x.sum(-1, keepdim=True) / is_read.sum(-1, keepdim=True).clamp_min(1)
    return torch.where(is_read, x - mean, 0.0)
