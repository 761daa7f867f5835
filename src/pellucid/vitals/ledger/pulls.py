"""What the gradient of an update's outputs pulls: which targets, which way, and which classes.

Cross-entropy has the gradient w (softmax(z) - y) by the logits: the one negative number of a place
names the token that becomes likelier. Turned round, the one positive number names one that becomes
less likely.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.vitals.call.place_weights import names_targets, target_weights
from pellucid.vitals.ledger.row_numbers import adds_up_to_zero
from pellucid.vitals.taps.outputs import output_attribute

#: About how many tokens' gradients are measured at the logits.
_TOKENS = 64
#: Fewer named places say nothing; and more classes than these are not counted.
_FEWEST, _MOST_CLASSES = 4, 256
#: Rows and places of a batch whose shift is measured, and the fewest targets of a row.
_ROWS, _PLACES, _FEWEST_PAID = 8, 256, 8
#: Outputs of fewer numbers are no logits of tokens; and a bound takes the part of so many of them.
_FEWEST_TOKENS, _ZEROS = 16, 0.1
#: A place whose gradient is such a part of the largest one has rounding errors alone.
_ROUNDING = 1e-4
#: The fewest rows of a line, how far their p has to spread, and the part of g that is off the line.
_FEWEST_ROWS, _SPREAD, _STRAIGHT = 16, 0.03, 1e-6
#: Targets that are read off a gradient in single precision differ by less from what they were.
_READ_OFF = 1e-4
#: A gradient adds up to more, of its absolute values, if one side of it is lost.
_ONE_SIDED = 0.5
#: The least share of a row's targets that are ids at one distance.
_CLEAR = 0.7


def token_pulls(
    gradient: Float[Tensor, "places vocab"], places: Int[Tensor, " places"], ids: Tensor | None
) -> Float[Tensor, " 2"]:
    """The share of targets that are the next id, and the share of places that push one down.

    Each is -1 if it is unknown.

    Args:
        gradient: Of the loss by the logits, at some places.
        places: The index of each among all places of the batch, row after row.
        ids: The ids (rows, time) that the logits belong to; None if unknown.
    """
    gradient = gradient.float()
    raises, lowers = names_targets(gradient)
    # where a p rounds to 1, its part is lost, and what is left has one sign
    is_named = (raises ^ lowers) & adds_up_to_zero(gradient, within=_ONE_SIDED)
    follows = gradient.new_tensor(-1.0)
    if ids is not None:
        flat = ids.flatten()
        is_inner = ((places + 1) % ids.shape[1] != 0) & raises & ~lowers
        is_next = gradient.argmin(-1) == flat[(places + 1).clamp(max=len(flat) - 1)]
        follows = _share(is_next & is_inner, is_inner)
    return torch.stack([follows, _share(lowers & is_named, is_named)])


def gap_of_places(gradient: Float[Tensor, "places vocab"]) -> Float[Tensor, ""]:
    """What the gradient of the middle place adds up to, of its largest part; 0 without zeros.

    The gradient of a softmax adds up to 0. Logits beyond a bound lose their part, which is then 0.
    0 too if few places are paid for, or outputs are few.

    Args:
        gradient: Of the loss by the logits, at some places.
    """
    gradient = gradient.float()
    largest = gradient.abs().amax(-1)
    # a distance from the model of the start begins with rounding errors alone
    is_paid = largest > _ROUNDING * largest.amax()
    ratio = gradient.sum(-1).abs() / largest
    has_zeros = (gradient == 0).float().mean(-1) > _ZEROS
    gaps = torch.where(has_zeros, ratio, 0.0).masked_fill(~is_paid, torch.nan)
    is_known = (is_paid.sum() >= _FEWEST) & (gradient.shape[-1] > _FEWEST_TOKENS)
    return torch.where(is_known, gaps.nanmedian(), 0.0)


def shift_of_rows(
    gradient: Float[Tensor, "rows time vocab"], ids: Int[Tensor, "rows time"] | None
) -> Float[Tensor, ""]:
    """How far the targets of a row are from the next ids, the farthest row; -1 if it is unknown.

    A row counts if nearly all of its targets are ids of the row at one distance, and no more than
    half of them are one id: padding stands at many distances from itself.

    Args:
        gradient: Of the loss by the logits.
        ids: The ids that the logits belong to.
    """
    unknown = gradient.new_tensor(-1.0, dtype=torch.float32)
    if ids is None or ids.shape[1] < _FEWEST_PAID:
        return unknown
    row_ids = ids[:_ROWS, :_PLACES]
    time = row_ids.shape[1]
    lowest, targets = gradient[:_ROWS, :_PLACES].min(-1)
    is_paid = lowest < 0
    distances = torch.arange(1 - time, time, device=ids.device)
    token_places = torch.arange(time, device=ids.device) + distances[:, None]
    equal = row_ids[:, token_places.clamp(0, time - 1)] == targets[:, None]
    n_paid = is_paid.sum(1)
    shares = (equal & (token_places >= 0) & (token_places < time) & is_paid[:, None]).sum(
        2
    ) / n_paid.clamp_min(1)[:, None]
    best = shares.argmax(1)
    # of a row that repeats itself, the next place counts
    usual = targets.float().masked_fill(~is_paid, torch.nan).nanmedian(1, keepdim=True).values
    n_usual = ((targets == usual) & is_paid).sum(1)
    is_clear = (n_paid >= _FEWEST_PAID) & (shares.amax(1) > _CLEAR) & (2 * n_usual <= n_paid)
    shifts = (distances[best] - 1).abs() * (shares[:, time] < _CLEAR)
    return torch.where(is_clear, shifts.float(), unknown).amax()


def class_pulls(
    gradient: Float[Tensor, "rows classes"],
    logits: Float[Tensor, "rows classes"],
    labels: Int[Tensor, " rows"],
) -> Float[Tensor, "2 classes"]:
    """How many rows each class has, and the sum of what they weigh; negative if it is pushed down.

    Args:
        gradient: Of the loss by the logits.
        logits: The logits.
        labels: The class of each row; a row with none, such as `IGNORED`, does not count.
    """
    n_classes = gradient.shape[1]
    is_class, labels = known_classes(labels, n_classes)
    weights = target_weights(gradient.float(), logits.float().softmax(-1), labels)
    sums = gradient.new_zeros((2, n_classes), dtype=torch.float32)
    sums[0].index_add_(0, labels, is_class.float())
    sums[1].index_add_(0, labels, weights * is_class)
    return sums


def smoothing_sums(
    gradient: Float[Tensor, "rows classes"],
    logits: Float[Tensor, "rows classes"],
    labels: Int[Tensor, " rows"],
) -> Float[Tensor, " 7"]:
    """The number of classes, and the sums of 1, p, g, p p, g g and p g over rows with a class.

    Args:
        gradient: Of the loss by the logits; g is its part by the label's logit.
        logits: The logits; p is the label's probability.
        labels: The class of each row.
    """
    n_classes = gradient.shape[1]
    is_class, labels = known_classes(labels, n_classes)
    y = labels[:, None]
    g = gradient.double().gather(1, y)[:, 0] * is_class
    p = logits.double().softmax(-1).gather(1, y)[:, 0] * is_class
    sums = torch.stack([is_class.double(), p, g, p * p, g * g, p * g]).sum(1)
    return torch.cat([sums.new_tensor([n_classes]), sums])


def known_classes(labels: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
    """Whether each row has a class, and its index; an index out of bounds ends a job on CUDA."""
    is_class = (labels >= 0) & (labels < n_classes)
    return is_class, labels.clamp(0, n_classes - 1).long()


def class_smoothing(sums: Float[Tensor, " 7"], rows: int) -> Float[Tensor, ""]:
    """The share s of a label that the loss spreads over all classes; 0 if it does not show.

    g = w (p - 1 + s - s / C) is a line in p, and crosses 0 at 1 - s + s / C. Of a focal loss, and
    of divided logits, it is none.

    Args:
        sums: What `smoothing_sums` gives of some updates, added up.
        rows: How many times that was.
    """
    n_classes, n = sums[0] / rows, sums[1].clamp_min(1)
    p, g, pp, gg, pg = (sums[2:] / n).unbind()
    var_p, var_g, covariance = pp - p * p, gg - g * g, pg - p * g
    slope = covariance / var_p.clamp_min(1e-30)
    is_line = covariance.square() > (1 - _STRAIGHT) * var_p * var_g
    is_known = is_line & (slope > 0) & (n >= _FEWEST_ROWS) & (var_p > _SPREAD**2)
    smoothing = (1 - p + g / slope.clamp_min(1e-30)) * n_classes / (n_classes - 1)
    return torch.where(is_known, smoothing.clamp_min(0.0), 0.0)


def class_logits(output: object, labels: object) -> Tensor | None:
    """The logits (rows, classes) of an output, if each row's label is a class; None otherwise."""
    logits: object = output_attribute(output, "logits")
    if not isinstance(labels, Tensor) or labels.ndim != 1 or labels.is_floating_point():
        return None
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(labels) != len(logits):
        return None
    return logits if 1 < logits.shape[1] <= _MOST_CLASSES else None


def smoothing_of_rows(
    gradient: Float[Tensor, "rows classes"], outputs: Float[Tensor, "rows classes"]
) -> Float[Tensor, ""]:
    """The share of each label that a mean loss spreads over all classes; 0 if it does not show.

    The targets of a mean over n rows are softmax(z) - n g. Smoothed ones have the same two numbers
    in all rows, 1 - s + s / C at the label and s / C elsewhere.

    Args:
        gradient: Of the loss by the outputs.
        outputs: What the model gives for each class.
    """
    g, p = gradient.double(), outputs.double().softmax(-1)
    targets = p - g * len(g)
    highest, lowest, total = targets.amax(-1), targets.amin(-1), targets.sum(-1)
    others = (total - highest) / (g.shape[1] - 1)
    gaps = (total - 1).abs() + (others - lowest) + (highest - highest.mean()).abs()
    is_smooth = (gaps < _READ_OFF).all() & (lowest > _READ_OFF).all()
    is_smooth &= (highest - lowest > _READ_OFF).all()
    return torch.where(is_smooth, lowest.mean() * g.shape[1], 0.0)


def unevenness(sums: Float[Tensor, "2 classes"]) -> Float[Tensor, ""]:
    """By which factor weights make classes more uneven than their rows; 0 if it is unknown.

    Weights that balance classes give less than 1, and no weights 1.

    Args:
        sums: The rows of each class, and the sum of their weights.
    """
    counts, weights = sums[:, sums[0] > 0]
    if len(counts) < 2:
        return sums.new_zeros(())
    factor = (weights.amax() / weights.amin()) / (counts.amax() / counts.amin())
    return torch.where(weights.amin() > 0, factor, 0.0)


def _share(part: Tensor, total: Tensor) -> Tensor:
    n = total.sum()
    return torch.where(n >= _FEWEST, part.sum() / n.clamp_min(1), -1.0)


def places_and_stride(outputs: Tensor) -> tuple[Tensor, int]:
    """The places of outputs (batch, time, vocab), and the stride that meets some `_TOKENS`.

    A stride that has a divisor in common with the time would meet a few columns alone: of padded
    rows those that are paid for more often, or less, than others.
    """
    places = outputs.view(-1, outputs.shape[-1])
    stride = max(1, len(places) // _TOKENS)
    while math.gcd(stride, outputs.shape[-2]) > 1:
        stride += 1
    return places, stride
