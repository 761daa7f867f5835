"""The number by which a loss divides the logits of classes, read off its gradient.

Of two classes that are not the row's own, softmax(z / T) has ln g1 - ln g2 = (z1 - z2) / T, and of
two classes in all, |g| = w sigmoid(-d / T), with d the own logit less the other one. Cosines are
multiplied on purpose, so that a number below 1 counts as 1.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.vitals.ledger.row_numbers import adds_up_to_zero

#: Of a line in the logits, so little is left.
_STRAIGHT = 1e-4
#: The numbers that are tried for two classes: from 1 to about 100, in steps of 2%.
_FACTOR, _TRIED = 1.02, 233
#: Weights differ by so much of themselves where a number is wrong, and by so much of that where it
#: is the right one.
_UNEVEN, _LEFT = 0.05, 0.02
#: Fewer rows say nothing.
_FEWEST_ROWS = 4


def temperature_sums(
    gradient: Float[Tensor, "rows classes"],
    logits: Float[Tensor, "rows classes"],
    labels: Int[Tensor, " rows"],
) -> Float[Tensor, " sums"]:
    """What `temperature` needs of a call; the sums of some calls may be added up.

    Of more than two classes, the sums of x x, x y and y y, with x a logit and y = ln g, each less
    its mean in its row, of the classes that are not the row's own. Of two, how unevenly rows would
    weigh for each number that is tried. Rows whose gradient does not add up to 0, as that of a
    softmax does, are left out.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
        labels: The class of each row; below 0 without one.
    """
    g, z = gradient.double(), logits.double()
    is_softmax = (labels >= 0) & adds_up_to_zero(g)
    if g.shape[1] == 2:
        return _unevenness(g, z, labels, is_softmax & (g != 0).all(-1))
    counts = (g > 0) & is_softmax[:, None]
    n = counts.sum(-1, keepdim=True).clamp_min(1)
    y = torch.where(counts, g, 1.0).log()
    x = torch.where(counts, z, 0.0)
    x, y = ((v - v.sum(-1, keepdim=True) / n) * counts for v in (x, y))
    return torch.stack([(x * x).sum(), (x * y).sum(), (y * y).sum()])


def _unevenness(g: Tensor, z: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
    """The deviation of the rows' weights, of their mean, for each number; 0 of too few rows.

    Args:
        g: The gradient (rows, 2).
        z: The logits.
        labels: The class of each row.
        counts: Whether a row counts.
    """
    classes = labels.clamp_min(0)[:, None]
    distance = z.gather(1, classes) - z.gather(1, 1 - classes)
    weights = g.abs().amax(-1, keepdim=True) / (-distance / _tried(g.device)).sigmoid()
    is_row, n = counts[:, None], counts.sum().clamp_min(1)
    mean = torch.where(is_row, weights, 0.0).sum(0) / n
    squares = torch.where(is_row, (weights - mean).square(), 0.0).sum(0) / n
    return torch.where(counts.sum() >= _FEWEST_ROWS, squares.sqrt() / mean.clamp_min(1e-300), 0.0)


def _tried(device: torch.device) -> Tensor:
    return _FACTOR ** torch.arange(_TRIED, dtype=torch.float64, device=device)


def temperature(sums: Float[Tensor, " sums"]) -> Float[Tensor, ""]:
    """The number by which a loss divides the logits of classes; 1 if the gradient shows none.

    Args:
        sums: What `temperature_sums` gives, added up over some updates.
    """
    if len(sums) == _TRIED:
        least, best = sums.min(0)
        # the gradient of a hinge is the same for all rows: it fits the largest number best
        is_read = (sums[0] > _UNEVEN) & (least < _LEFT * sums[0]) & (best < _TRIED - 1)
        return torch.where(is_read, _tried(sums.device)[best], 1.0)
    xx, xy, yy = sums.unbind()
    is_line = (xy.square() > (1 - _STRAIGHT) * xx * yy) & (xy > 0)
    return torch.where(is_line, xx / xy.clamp_min(1e-300), 1.0).clamp_min(1.0)
