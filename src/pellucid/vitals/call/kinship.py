"""Whether targets are tokens of the same text as those that the model reads."""

from __future__ import annotations

import math

from jaxtyping import Bool, Float, Int
from torch import Tensor, searchsorted, stack, where

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
) -> Float[Tensor, " 2"] | None:
    """The kinship of masked tokens and the others, and how often two of the former are equal.

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
    values = stack([kinship(ids, labels, is_text, is_target, _FREQUENT), equal])
    return where(is_usual & ~is_label, values, math.nan)
