"""What a loss makes of outputs that each have a label of their own, read from its gradient.

Binary cross-entropy has the gradient c w (sigmoid(z) - y), with one w for each column and label. So
its sign names the label. A softmax over labels that do not exclude each other has c (n p - y), with
n labels in a row.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.vitals.ledger.row_numbers import adds_up_to_zero

#: A gradient has a shape if nothing of its square is left but rounding in single precision, and
#: another shape leaves so much more.
_FITS, _WORSE = 1e-9, 10.0
#: With so few outputs beyond one for each column and label, any shape fits.
_FEWEST = 6
#: So many rows that all fit one unit of labels, some with one and some with several, are no chance.
_OPEN = 3
#: With so many columns, the labels that are 0 outweigh the one that is 1.
_MANY = 8
#: How far a whole number may be from the label that a gradient gives.
_INTEGER_GAP = 1e-2
#: A probability so far from 0 and 1 is clearly no whole number.
_DOUBTFUL = 5 * _INTEGER_GAP


def fits_best(residual: Float[Tensor, ""], *others: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """1 if one shape leaves nothing of a gradient but rounding, and each other one more, else 0.

    Args:
        residual: The share of the gradient's square that the shape leaves.
        others: Those that other shapes leave.
    """
    least = torch.stack(others).amin()
    return ((residual < _FITS) & (least > _WORSE * residual)).double()


def left_over(
    gradient: Float[Tensor, "rows columns"],
    shape: Float[Tensor, "rows columns"],
    is_label: Bool[Tensor, "rows columns"],
) -> Float[Tensor, ""]:
    """The share of a gradient's square that no shape has, times a number for each column and label.

    Args:
        gradient: Of the loss by the outputs.
        shape: What it would be.
        is_label: Whether the label is 1.
    """
    residual = gradient.new_zeros(())
    for part in (is_label, ~is_label):
        g, s = gradient * part, shape * part
        factor = (g * s).sum(0) / s.square().sum(0).clamp_min(1e-300)
        residual = residual + (g - factor * s).square().sum()
    size = gradient.square().sum()
    return torch.where(size > 0, residual / size.clamp_min(1e-300), 1.0)


def sigmoid_twice(
    gradient: Float[Tensor, "rows columns"], outputs: Float[Tensor, "rows columns"]
) -> Float[Tensor, ""]:
    """1 if the gradient is that of a binary cross-entropy of sigmoid(z), and not of z, else 0.

    With s = sigmoid(z) taken for an output, it is c w (sigmoid(s) - y) s (1 - s).

    Args:
        gradient: Of the loss by the outputs.
        outputs: One number for each row and column.
    """
    g, z = gradient.double(), outputs.double()
    y, s = g < 0, z.sigmoid()
    plain = left_over(g, s - y.double(), y)
    squashed = left_over(g, (s.sigmoid() - y.double()) * s * (1 - s), y)
    margin = left_over(g, g.sign(), y)  # its gradient is one number
    return fits_best(squashed, plain, margin) * _says_much(g)


def label_weights(
    gradient: Float[Tensor, "rows columns"], outputs: Float[Tensor, "rows columns"]
) -> Float[Tensor, "columns 2 2"]:
    """For each column and label: how often it comes, and the sum of what it weighs; 0 if unknown.

    Args:
        gradient: Of the loss by the outputs.
        outputs: One number for each row and column.
    """
    g, z = gradient.double(), outputs.double()
    y, s = g < 0, z.sigmoid()
    shape = s - y.double()
    # outputs that are all equal fit any loss that pulls all rows of a label alike
    differs = (s.amax(0) - s.amin(0)).amax() > _INTEGER_GAP
    is_plain = (left_over(g, shape, y) < _FITS) & _says_much(g) & differs
    weights = torch.where(shape == 0, 0.0, g / shape)
    counts = torch.stack([~y, y], 1).double()  # rows, label, column
    sums = torch.stack([counts.sum(0), (counts * weights[:, None]).sum(0)])
    return torch.where(is_plain, sums, 0.0).permute(2, 0, 1)


def _says_much(gradient: Tensor) -> bool:
    """Whether there are more outputs than numbers that a shape is free to have."""
    return gradient.numel() >= _FEWEST + 2 * gradient.shape[1]


def unevenness_of_labels(sums: Float[Tensor, "columns 2 2"]) -> Float[Tensor, ""]:
    """By which factor weights make the labels 0 and 1 more uneven than rows: the median of columns.

    As `unevenness` of classes. A column with one label alone counts as 0.

    Args:
        sums: What `label_weights` gives, added up over some updates.
    """
    lowest_count, least = sums.amin(2).unbind(1)
    highest_count, highest = sums.amax(2).unbind(1)
    factors = (highest / least.clamp_min(1e-300)) / (highest_count / lowest_count.clamp_min(1.0))
    return torch.where((lowest_count > 0) & (least > 0), factors, 0.0).median()


def impossible_labels(
    gradient: Float[Tensor, "rows columns"], outputs: Float[Tensor, "rows columns"]
) -> Float[Tensor, ""]:
    """The share of labels of a binary cross-entropy that are whole numbers, but neither 0 nor 1.

    y = sigmoid(z) - g / c, where c is 1 of a sum and 1 / n of a mean. 0 unless one of them makes
    all labels whole numbers: then the loss is surely of this kind. Where sigmoid(z) itself is
    whole, any constant gradient gives such numbers, as a margin that is far off does. So do other
    losses of outputs that are still equal; that of a softmax adds up to 0 in each row.

    Args:
        gradient: Of the loss by the outputs.
        outputs: One number for each row and column.
    """
    g, z = gradient.double(), outputs.double()
    share, p = g.new_zeros(()), z.sigmoid()
    is_doubtful = ((p - p.round()).abs() > _DOUBTFUL).sum() >= _FEWEST
    is_doubtful &= (p.amax(0) - p.amin(0)).amax() > _DOUBTFUL
    is_doubtful &= ~adds_up_to_zero(g).all()
    for factor in (float(g.numel()), 1.0):
        labels = p - g * factor
        integers = labels.round()
        is_whole = is_doubtful & ((labels - integers).abs().amax() < _INTEGER_GAP)
        share_outside = ((integers < 0) | (integers > 1)).double().mean()
        share = torch.maximum(share, torch.where(is_whole, share_outside, 0.0))
    return share


def exclusive_labels(
    gradient: Float[Tensor, "rows columns"], outputs: Float[Tensor, "rows columns"]
) -> Float[Tensor, ""]:
    """1 if each row has exactly one label of 1 in a binary cross-entropy over many columns, else 0.

    The gradient of a softmax names one class of each row too, but adds up to 0.

    Args:
        gradient: Of the loss by the outputs.
        outputs: One number for each row and column.
    """
    g, z = gradient.double(), outputs.double()
    if g.shape[1] < _MANY or not _says_much(g):
        return g.new_zeros(())
    y, s = g < 0, z.sigmoid()
    # outputs that are all equal fit any loss that pulls all rows of a label alike
    differs = (s.amax(0) - s.amin(0)).amax() > _INTEGER_GAP
    is_binary = (left_over(g, s - y.double(), y) < _FITS) & differs & ~adds_up_to_zero(g).all()
    return (is_binary & (y.sum(1) == 1).all()).double()


def several_labels(
    gradient: Float[Tensor, "rows classes"], logits: Float[Tensor, "rows classes"]
) -> Float[Tensor, ""]:
    """The share of rows with several labels, each counted in full, under one softmax; 0 otherwise.

    Of n labels in a row the gradient is c (n p - y). So g / p is n c where y is 0, and n p - g / c
    is 1 at n places. Shares of labels add up to 1, and soft ones are no ones.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
    """
    g, p = gradient.double(), logits.double().softmax(-1)
    y = g < 0
    n = y.sum(-1)
    is_open = (n > 0) & (n < g.shape[1])
    others = torch.where(y, torch.nan, g / p)
    level = others.nanmean(-1, keepdim=True)
    spread = (others - level).abs().nan_to_num(0.0).amax(-1)
    label_values = torch.where(y, level * p - g, torch.nan)
    unit = label_values.nanmean(-1)
    spread = spread + (label_values - unit[:, None]).abs().nan_to_num(0.0).amax(-1)
    scale = torch.where(is_open, unit, torch.nan).nanmedian()
    fits = spread + (level[:, 0] - n * unit).abs() + (unit - scale).abs() < _INTEGER_GAP * scale
    # if all rows have as many labels, each may count as a share
    is_mixed = ((n == 1) & is_open).any() & ((n > 1) & is_open).any()
    is_sum = (fits | ~is_open).all() & (is_open.sum() >= _OPEN) & is_mixed
    return torch.where(is_sum, ((n > 1) & is_open).double().mean(), 0.0)
