"""Whether targets are tokens of the same text as those that the model reads."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor, cat, searchsorted, stack, where

from pellucid.vitals.call.row_content import find_masks

#: A token that comes so often in a row, on average, is no word of the text but a part of its form,
#: such as a start, an end or a space.
_FREQUENT = 0.9


def kinship(
    ids: Int[Tensor, "rows time"],
    targets: Int[Tensor, "rows time"],
    is_text: Bool[Tensor, "rows time"],
    is_target: Bool[Tensor, "rows time"],
    frequent: float = math.inf,
) -> Float[Tensor, ""]:
    """How often a target equals a token of the text, of how often two of its tokens are equal.

    It is near 1 if both come from one text, and low if targets are drawn by lot from a vocabulary:
    words are not equally frequent. NaN if no two tokens of the text are equal.

    Args:
        ids: The ids that the model reads.
        targets: The target of each place.
        is_text: The places that hold tokens of the text.
        is_target: The places that are paid for.
        frequent: Tokens that come so often in a row, on average, do not count.
    """
    text = where(is_text, ids, -1).flatten().sort().values
    text_counts, target_counts = (
        searchsorted(text, tokens, right=True) - searchsorted(text, tokens)
        for tokens in (text, targets.masked_fill(~is_target, -2).flatten().contiguous())
    )
    highest_count = frequent * len(ids)
    is_word = (text >= 0) & (text_counts < highest_count)
    is_paid = is_target.flatten() & (target_counts < highest_count)
    n_words, n_paid = is_word.sum(), is_paid.sum()
    text_rate = ((text_counts - 1) * is_word).sum() / (n_words * (n_words - 1))
    target_rate = (target_counts * is_paid).sum() / (n_words * n_paid)
    return where(text_rate > 0, target_rate / text_rate, math.nan)


def kinship_of_masked(
    ids: Int[Tensor, "rows time"], labels: object, mask: object
) -> Float[Tensor, " 10"] | None:
    """The kinship of masked tokens and the others, how often two of the former are equal, and more.

    The last eight numbers come from `neighbours_in_text`.

    Of labels drawn by lot from V tokens, one pair in V is equal. None without labels of tokens; NaN
    if no one id stands at more than half of the places that are paid for, or if it is a label.

    Args:
        ids: The ids that the model reads.
        labels: The label of each place, negative where nothing is paid for.
        mask: 1 for tokens and 0 for padding, if the call has such a mask.
    """
    places = find_masks(ids, labels)
    if places is None or not isinstance(labels, Tensor):
        return None
    is_target, is_masked, is_label = places
    is_text = ~is_target & ~is_masked
    if isinstance(mask, Tensor) and mask.shape == ids.shape:
        is_text = is_text & mask.bool()
    is_usual = 2 * (is_masked & is_target).sum() > is_target.sum()
    targets, n_targets = where(is_target, labels, -1).flatten().sort().values, is_target.sum()
    counts = searchsorted(targets, targets, right=True) - searchsorted(targets, targets)
    equal = ((counts - 1) * (targets >= 0)).sum() / (n_targets * (n_targets - 1))
    kin = kinship(ids, labels, is_text, is_target, _FREQUENT)
    values = cat([stack([kin, equal]), neighbours_in_text(ids, targets, is_text)])
    return where(is_usual & ~is_label, values, math.nan)


def neighbours_in_text(
    ids: Int[Tensor, "rows time"], targets: Int[Tensor, " n"], is_text: Bool[Tensor, "rows time"]
) -> Float[Tensor, " 8"]:
    """How much oftener the text holds a neighbour of a target's id than the ids next to it.

    Masked tokens come from the text around them, so the text holds many of them. If an offset was
    added to them, it holds their neighbour in the vocabulary instead, and neither the target itself
    nor the next neighbour. Frequencies that fall along the vocabulary make no such peak.

    Args:
        ids: The ids that the model reads.
        targets: The targets in order; negative ones do not count, and of equal ones the first.
        is_text: The places that hold tokens of the text.

    Returns:
        For the neighbour below and then the one above: the sum of the differences to the target
        and of their squares, and the same to the next neighbour.
    """
    text = where(is_text, ids, -1).flatten().sort().values
    is_new = (targets >= 0) & (targets != targets.roll(1))
    # all copies of a word may be masked, so each id counts once
    is_in_text = {
        d: (searchsorted(text, targets + d, right=True) > searchsorted(text, targets + d)) & is_new
        for d in range(-2, 3)
    }
    differences = [
        is_in_text[side].double() - is_in_text[other].double()
        for side in (-1, 1)
        for other in (0, 2 * side)
    ]
    return stack([f(d) for d in differences for f in (Tensor.sum, _sum_of_squares)])


def _sum_of_squares(numbers: Tensor) -> Tensor:
    return numbers.square().sum()


def measure_masked(batches: Sequence[Float[Tensor, " 10"]]) -> dict[str, Tensor]:
    """The signs of masked tokens, of what `kinship_of_masked` gave of some updates.

    Source:
        McNemar 1947: of two kinds of pairs that differ, a half each by chance
    """
    table = stack(list(batches))
    # 1, which is calm, where no batch had masks
    kin, equal = table[:, :2].nanmean(0).nan_to_num(nan=1.0).unbind()
    sums, squares = table[:, 2:].nansum(0).view(2, 2, 2).unbind(2)
    errors = sums / squares.clamp_min(1.0).sqrt()
    return {
        "targets.kin": kin,
        "targets.equal": equal,
        "targets.moved": errors.amin(1).amax(),
    }
