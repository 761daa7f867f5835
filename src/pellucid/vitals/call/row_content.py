"""What rows of ids hold: one piece of text again and again, or one token alone."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
from torch import Tensor

from pellucid.vitals.async_metrics import AsyncMetrics

#: A row is repetitive if more than this share of it repeats with one of these periods.
_PERIODS, _REPEATED_SHARE = range(2, 9), 0.5
#: Rows of fewer tokens are not judged: as repetitive, and as one token.
_LONG, _FEWEST = 32, 8
#: A row holds one token if more than this share of what lies between its ends is that token.
_FILLED = 0.85


def record_rows(metrics: AsyncMetrics, ids: Tensor, labels: object) -> None:
    """Record a number that identifies a batch, and the shares of repetitive rows and of one token.

    Args:
        metrics: Take the numbers.
        ids: The ids of the batch.
        labels: What it is paid for.
    """
    flat = ids.flatten().double()
    places = torch.arange(flat.shape[0], device=flat.device) % 97 + 1
    metrics.record("batch", (flat * places).sum())  # a checksum of its ids
    if ids.ndim == 2 and ids.shape[1] >= _FEWEST:
        metrics.record("batch.one_token", one_token(without_masks(ids, labels)))
    if ids.ndim == 2 and ids.shape[1] >= _LONG:
        metrics.record("batch.repetitive", repetitive(ids))


def repetitive(ids: Tensor) -> Tensor:
    """The share of rows (batch, time) that mostly repeat one short piece of text.

    A token counts if it equals the one 2 to 8 places before it but not its predecessor: a row of
    padding repeats itself too, but is no text.
    """
    differs = ids[:, 1:] != ids[:, :-1]
    shares = [
        ((ids[:, d:] == ids[:, :-d]) & differs[:, d - 1 :]).double().mean(1) for d in _PERIODS
    ]
    return (torch.stack(shares).amax(0) > _REPEATED_SHARE).double().mean()


def without_masks(ids: Tensor, labels: object) -> Tensor:
    """The ids (batch, time) with their labels in the place of masks; the ids if there are none.

    A mask is the id of more than half of the places that are paid for, and no label.

    Args:
        ids: The ids that a model reads.
        labels: What it is paid for; of the same shape if it is a token for each place.
    """
    places = find_masks(ids, labels)
    if places is None:
        return ids
    is_masked = places.is_paid & places.is_mask & ~places.is_label
    return torch.where(is_masked, cast("Tensor", labels), ids)


class Masks(NamedTuple):
    """The places that are paid for, those of the usual id among them, and if that is a label too.

    If more than half of the paid places hold one id, it is the usual one.
    """

    is_paid: Tensor
    is_mask: Tensor
    is_label: Tensor


def find_masks(ids: Tensor, labels: object) -> Masks | None:
    """Where a batch (batch, time) holds the id of masks; None without labels of tokens.

    Args:
        ids: The ids that a model reads.
        labels: The label of each place, negative where nothing is paid for.
    """
    if not isinstance(labels, Tensor) or labels.shape != ids.shape or labels.is_floating_point():
        return None
    is_paid = labels >= 0
    mask = ids.float().masked_fill(~is_paid, math.nan).nanmedian()
    return Masks(is_paid, ids == mask, (is_paid & (labels == mask)).any())


def one_token(ids: Tensor) -> Tensor:
    """The share of rows (batch, time) that hold hardly more than one id; 0 for zeros and ones.

    Equal ids at the start and the end of a row may be padding, and do not count; a row of two such
    pieces is one token and padding.
    """
    if not ids.numel():
        return torch.zeros((), dtype=torch.float64, device=ids.device)
    first, last = ids[:, :1], ids[:, -1:]
    inner = ((ids != first).cumsum(1) > 0) & ((ids != last).flip(1).cumsum(1).flip(1) > 0)
    usual = ids.float().masked_fill(~inner, math.nan).nanmedian(1, keepdim=True).values
    n_inner = inner.sum(1)
    is_filled = ((ids == usual) & inner).sum(1) > _FILLED * n_inner
    between = ids[:, 1:-1] if ids.shape[1] > _FEWEST else ids
    is_one = (between == between[:, :1]).all(1) | (is_filled & (n_inner >= _FEWEST))
    # a row of one token and padding has no inner part; a text of one token is no such row
    n_start = (ids == first).cumprod(1).sum(1)
    is_one = is_one | ((n_inner == 0) & (torch.minimum(n_start, count_last(ids)) >= _FEWEST))
    return (is_one & (ids.amax() > 1)).double().mean()


def count_last(ids: Tensor) -> Tensor:
    """How often each row's last id stands at its end: (rows, time) to (rows,)."""
    return (ids == ids[:, -1:]).flip(1).long().cumprod(1).sum(1)
