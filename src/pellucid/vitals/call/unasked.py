"""Tokens that a loss never asks for, by their id alone: what an `ignore_index` leaves out.

Prompts, padding and masks leave out places. An id that is left out wherever it comes, while all
others are paid for, is left out as an id.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.vitals.call.alignment import are_classes, is_masked
from pellucid.vitals.call.row_content import find_masks

#: An id that comes so often shows whether it is asked for.
_REPEATED = 8
#: So many places of other ids may be left out: the last ones of texts.
_OTHERS = 0.02
#: Fewer tokens say nothing.
_FEWEST = 256


def unasked(
    ids: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"], special: Sequence[int]
) -> float:
    """The share of tokens whose id is never a target, where nearly all others are; 0 otherwise.

    0 too if these tokens lie together, as padding and images do, and if targets are classes.

    Args:
        ids: The rows that the model reads.
        targets: The target of each place, `IGNORED` where nothing is paid for.
        special: Ids that mean no token of a text, such as an end.
    """
    if ids.shape != targets.shape or ids.shape[1] < 2:
        return 0.0
    following, is_paid = ids[:, 1:], targets[:, :-1] != IGNORED
    is_token = ~torch.isin(following, following.new_tensor(list(special)))
    n = int(is_token.sum())
    if n < _FEWEST or int(following.min()) < 0 or are_classes(ids, targets):
        return 0.0
    tokens = following[is_token]
    counts = torch.bincount(tokens)
    paid = torch.bincount(following[is_token & is_paid], minlength=len(counts))
    is_left_out = (counts >= _REPEATED) & (paid == 0)
    is_unasked = is_left_out[following.clamp_max(len(counts) - 1)] & is_token
    n_unasked, n_unpaid = int(is_unasked.sum()), int((is_token & ~is_paid).sum())
    if n_unpaid - n_unasked > _OTHERS * n:
        return 0.0
    n_pieces = int((is_unasked[:, 1:] & ~is_unasked[:, :-1]).sum())
    share = n_unasked / n
    return share if n_pieces >= share * (1 - share) * n / 2 else 0.0


def asks_for_one_id(ids: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]) -> float:
    """1 if a loss asks for one id alone and leaves out the places of all others; else 0.

    Args:
        ids: The rows that the model reads.
        targets: The target of each place, `IGNORED` where nothing is paid for.
    """
    if ids.shape != targets.shape or ids.shape[1] < 2:
        return 0.0
    following, paid = ids[:, 1:], targets[:, :-1]
    is_paid = paid != IGNORED
    paid_ids, unpaid_ids = paid[is_paid], following[~is_paid]
    if (
        len(paid_ids) < _REPEATED
        or len(unpaid_ids) < _FEWEST
        or bool((paid_ids != paid_ids[0]).any())
    ):
        return 0.0
    is_next = bool((following[is_paid] == paid_ids[0]).all())
    return float(is_next and not bool((unpaid_ids == paid_ids[0]).any()))


def unpaid_masks(ids: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]) -> float:
    """The share of the masked places that a loss does not pay for; 0 if tokens are not masked.

    Args:
        ids: The rows that the model reads.
        targets: The target of each place, `IGNORED` where nothing is paid for.
    """
    if not is_masked(ids, targets) or _follow(ids, targets):
        return 0.0
    masks = find_masks(ids, targets)
    if masks is None:
        return 0.0
    return float((masks.is_mask & ~masks.is_paid).sum() / masks.is_mask.sum())


def _follow(ids: Int[Tensor, "rows time"], targets: Int[Tensor, "rows time"]) -> bool:
    """Whether a quarter of the targets are the next tokens, as by chance they are not.

    A template's end may come before each short answer. Of pairs, half are pushed down, and their
    gradient names other tokens.
    """
    is_paid = targets[:, :-1] != IGNORED
    is_next = (ids[:, 1:] == targets[:, :-1]) & is_paid
    return bool(4 * is_next.sum() > is_paid.sum())
