"""Numbers that stand at a bound, and gradients that something adds to before the step.

Of n different numbers one has the largest magnitude. If many have it, to the bit, something cuts
them off there. A scale, a limit or a mask leaves gradients equal to those that arrived, number by
number, but for one factor. What is added to them does not.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

#: From this share on, numbers with the largest magnitude are no chance: of 32 in 16 bits it is
#: 0.125 at most.
BOUND = 0.2
#: Numbers that are equal but for a factor differ by no more than rounding.
_ROUNDING = 1e-3
#: Fewer numbers of a gradient say nothing; and with so many unchanged ones it has no noise.
_FEWEST, _UNCHANGED = 16, 0.25
#: Additions in one direction each time are no noise: a decay, an average of gradients.
_STEADY = 0.7


def share_at_bound(
    numbers: Float[Tensor, "rows width"], columns: Int[Tensor, "matrices n"]
) -> Float[Tensor, " rows"]:
    """The share of a matrix's numbers that have its largest magnitude, of the middle matrix.

    A matrix of one magnitude, with or without zeros, has no bound: ones, signs, three levels. Nor
    has one whose largest magnitude changes: steps of one size lead from zero to a few magnitudes.

    Args:
        numbers: The numbers of all witnesses in each update.
        columns: The places of the numbers of each matrix.
    """
    if not columns.numel():
        return numbers.new_zeros(len(numbers))
    sizes = numbers[:, columns].abs()
    highest = sizes.amax(2, keepdim=True)
    is_highest = sizes == highest
    is_lower = ~is_highest & (sizes > 0)
    lower_high = sizes.masked_fill(~is_lower, 0).amax(2)
    lower_low = sizes.masked_fill(~is_lower, torch.inf).amin(2)
    has_others = (lower_low < lower_high) & (highest[..., 0] > 0)
    is_kept = highest[1:, :, 0] == highest[:-1, :, 0]
    stays = torch.cat([is_kept[:1], is_kept]) if len(is_kept) else has_others
    return (is_highest.double().mean(2) * (has_others & stays)).quantile(0.5, dim=1)


def noise_ratio(
    used: Float[Tensor, "rows n"], total: Float[Tensor, "rows n"]
) -> Float[Tensor, " rows"]:
    """The length of what something adds to a gradient, over the length of the gradient's own part.

    0 if the step has the gradient's direction, or if the addition is that of the step before. -1 if
    one of them is not known, and for the first update.

    Args:
        used: The gradient at each step.
        total: The gradient that the backward passes brought.
    """
    if used.shape[1] < _FEWEST:
        return used.new_full((len(used),), -1.0)
    ratio = used / total
    is_known = ((total != 0) & ratio.isfinite()).all(1)
    middle = ratio.nan_to_num(0.0).quantile(0.5, dim=1, keepdim=True)
    is_unchanged = ((ratio - middle).abs() <= _ROUNDING * middle.abs()) | (used == 0)
    sizes = used.abs()
    is_cut = (sizes == sizes.amax(1, keepdim=True)).double().mean(1) >= BOUND
    factor = (used * total).sum(1) / total.square().sum(1).clamp_min(1e-300)
    projection = total * factor[:, None]
    addition = used - projection
    length, usual_length = (x.square().sum(1).sqrt() for x in (addition, projection))
    units = addition / length.clamp_min(1e-300)[:, None]
    is_steady = (units[1:] * units[:-1]).sum(1).abs() > _STEADY
    is_noisy = (is_unchanged.double().mean(1) < _UNCHANGED) & ~is_cut
    is_noisy[1:] &= ~is_steady
    is_known[0] = False
    noise = torch.where(is_noisy, length / usual_length.clamp_min(1e-300), 0.0)
    return torch.where(is_known, noise, -1.0)
