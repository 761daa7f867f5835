"""By which power of their doubt a loss weighs rows or places, read from its gradient by the logits.

A focal loss weighs a target of probability p by (1 - p)^gamma (Lin et al. 2017, 1708.02002): ln w
is a line over ln(1 - p), with the slope gamma. A mean has a flat line.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.vitals.call.place_weights import UNCERTAIN, names_targets, target_weights
from pellucid.vitals.ledger.pulls import known_classes

#: Fewer rows, or places, say nothing.
_FEWEST_ROWS, _FEWEST_PLACES = 16, 12
#: A line explains so much of the logarithms of the weights of rows, or of places.
_ROWS_LINE, _PLACES_LINE = 0.9, 0.8
#: Powers of p up to this one are tried. Less than this share of the weights' square is left by the
#: right one, and more than this one by equal weights; so many of the rows are pushed down.
_HIGHEST, _LEFT, _LEFT_BY_ONE, _LOWERED = 5, 0.01, 0.05, 0.1
#: Places whose ln(1 - p) spread less say nothing.
_PLACES_SPREAD = 0.03


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
    is_counted = is_class & (weights > 0) & (doubt > UNCERTAIN)
    return _sums(doubt, weights, is_counted, classes, n_classes)


def focus(sums: Float[Tensor, "6 classes"]) -> Float[Tensor, ""]:
    """The power of 1 - p by which rows of a class weigh; 0 if they do not follow it.

    Args:
        sums: What `focus_sums` gives, added up over some updates.
    """
    return _slope(sums, fewest=_FEWEST_ROWS, explained=_ROWS_LINE, spread=0.0)


def focus_of_places(
    gradient: Float[Tensor, "places vocab"], logits: Float[Tensor, "places vocab"]
) -> Float[Tensor, ""]:
    """The power of 1 - p by which places weigh, whatever their targets are.

    0 too where the weights follow no such line, and where p is alike everywhere.

    Args:
        gradient: Of the loss by the logits, at some places.
        logits: The logits there.
    """
    g, z = gradient.float(), logits.float()
    raises, lowers = names_targets(g)
    target = g.argmin(-1, keepdim=True)
    doubt = 1 - (z.gather(-1, target)[:, 0] - z.logsumexp(-1)).exp()
    weights = -g.gather(-1, target)[:, 0] / doubt.clamp_min(UNCERTAIN)
    is_counted = raises & ~lowers & (weights > 0) & (doubt > UNCERTAIN)
    sums = _sums(doubt, weights, is_counted, torch.zeros_like(target[:, 0]), 1)
    return _slope(sums, fewest=_FEWEST_PLACES, explained=_PLACES_LINE, spread=_PLACES_SPREAD)


def ease_sums(
    gradient: Float[Tensor, "rows classes"], logits: Float[Tensor, "rows classes"]
) -> Float[Tensor, "2 5 powers"]:
    """For each power of p, what `ease` needs, of rows that are pulled up and of those pushed down.

    A focal loss with p in place of 1 - p, -p^gamma ln p, weighs a row by p^gamma (1 + gamma ln p).
    That is below 0 where p is small: the row is pushed away from its class.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
    """
    g, p = gradient.double(), logits.double().softmax(-1)
    raises = ((g < 0).sum(-1) == 1) & (g.shape[-1] > 2)
    lowers = ((g > 0).sum(-1) == 1) & (g.shape[-1] > 2)
    classes = torch.where(raises, g.argmin(-1), g.argmax(-1))
    p = p.gather(-1, classes[:, None])
    is_open = 1 - p > UNCERTAIN
    weights = -g.gather(-1, classes[:, None]) / (1 - p).clamp_min(UNCERTAIN)
    power = torch.arange(1, _HIGHEST + 1, device=p.device)
    shape = p.pow(power) * (1 + power * p.clamp_min(1e-300).log())
    ones, squares = torch.ones_like(shape), weights.square()
    terms = torch.stack([ones, weights * ones, weights * shape, shape.square(), squares * ones])
    kinds = ((kind[:, None] & is_open).double() for kind in (raises, lowers))
    return torch.stack([(terms * kind).sum(1) for kind in kinds])


def ease(sums: Float[Tensor, "2 5 powers"]) -> Float[Tensor, ""]:
    """The power of p by which rows weigh; 0 if they do not follow it, or none is pushed down.

    Args:
        sums: What `ease_sums` gives, added up over some updates.
    """
    n, total, product, of_shape, of_weights = sums.sum(0).unbind()
    left = 1 - product.square() / (of_shape * of_weights).clamp_min(1e-300)
    left_by_one = 1 - total[0].square() / (n[0] * of_weights[0]).clamp_min(1e-300)
    least, place = torch.where(product > 0, left, 1.0).min(0)
    is_lowered = (n[0] >= _FEWEST_ROWS) & (sums[1, 0, 0] >= _LOWERED * n[0])
    is_ease = is_lowered & (least < _LEFT) & (left_by_one > _LEFT_BY_ONE)
    return torch.where(is_ease, place + 1.0, 0.0)


def _sums(
    doubt: Float[Tensor, " n"],
    weights: Float[Tensor, " n"],
    is_counted: Bool[Tensor, " n"],
    groups: Int[Tensor, " n"],
    n_groups: int,
) -> Float[Tensor, "6 groups"]:
    """For each group the sums of 1, x, y, x x, y y and x y, with x = ln doubt and y = ln weight.

    Args:
        doubt: 1 - p of each target.
        weights: What the loss weighs it by.
        is_counted: Whether both are above 0 and known.
        groups: The group of each.
        n_groups: How many groups there are.
    """
    x, y = (torch.where(is_counted, v.double(), 1.0).log() for v in (doubt, weights))
    sums = x.new_zeros((6, n_groups))
    for total, part in zip(sums, (is_counted.double(), x, y, x * x, y * y, x * y), strict=True):
        total.index_add_(0, groups, part)
    return sums


def _slope(
    sums: Float[Tensor, "6 groups"], *, fewest: int, explained: float, spread: float
) -> Float[Tensor, ""]:
    """The slope of y over x within the groups; 0 where they follow no line.

    Args:
        sums: What `_sums` gives.
        fewest: With fewer it is unknown.
        explained: The share of y's variance that a line explains.
        spread: The least standard deviation of x.
    """
    n, n_all = sums[0].clamp_min(1), sums[0].sum()
    xx, yy, xy = (
        (sums[i] - sums[j] * sums[k] / n).sum() for i, j, k in ((3, 1, 1), (4, 2, 2), (5, 1, 2))
    )
    is_line = (xy.square() > explained * xx * yy) & (xx > spread**2 * n_all) & (n_all >= fewest)
    return torch.where(is_line, xy / xx.clamp_min(1e-300), 0.0)
