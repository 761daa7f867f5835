"""Checksums of a batch's rows: equal for the same text, however it is padded or masked."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

#: Most rows of a batch that get a checksum.
ROWS = 8
#: A checksum has so many bits, which a float32 holds exactly.
_BITS = 24


def row_checksums(
    ids: Int[Tensor, "batch time"], mask: Any = None, labels: Any = None
) -> Float[Tensor, " 1+rows"] | None:
    """The mean length of the first rows, and a number of each; None if ids are no rows.

    The number of a row without tokens is 0.

    Args:
        ids: The ids that the model reads.
        mask: 1 for tokens and 0 for padding, if the call has such a mask.
        labels: The labels of the call; a masked token is known by its label.
    """
    if ids.ndim != 2:
        return None
    ids = ids[:ROWS].long()
    if _is_like(labels, ids):
        labels = labels[:ROWS].long()
        ids = torch.where(labels >= 0, labels, ids)
    real = mask[:ROWS].bool() if _is_like(mask, ids) else torch.ones_like(ids, dtype=torch.bool)
    # padding at the start moves nothing: places are counted from the first token
    places = real.long().cumsum(1)
    mixed = (ids + 1) * (places * 0x9E3779B97F4A7C1 * 2 + 1)
    mixed = ((mixed ^ (mixed >> 29)) * real).sum(1)
    checksums = ((mixed ^ (mixed >> 31)) & ((1 << _BITS) - 1)).float()
    return torch.cat([real.sum(1).float().mean()[None], checksums])


def _is_like(values: Any, ids: Tensor) -> bool:
    return (
        isinstance(values, Tensor)
        and values.ndim == 2
        and values.shape[1] == ids.shape[1]
        and not values.is_floating_point()
    )
