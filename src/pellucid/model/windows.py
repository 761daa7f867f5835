"""Attention over a window, in time x window steps instead of time squared."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from pellucid.model.cache import KeysAndValues


class Blocks(NamedTuple):
    """Queries in blocks as long as the window, with the keys of this and the previous block."""

    q: Float[Tensor, "blocks heads window d_head"]
    read: KeysAndValues
    mask: Bool[Tensor, "blocks 1 window two_windows"]


def latest(read: KeysAndValues, window: int) -> KeysAndValues:
    """The keys and values that a query at the end sees."""
    return KeysAndValues(*(part[:, :, -window:] for part in read))


def in_blocks(
    q: Float[Tensor, "batch heads time d_head"], read: KeysAndValues, window: int
) -> Blocks:
    """A causal window as attention within blocks.

    Block b has the queries b w ... b w + w - 1. Each sees fewer than w tokens back, so all of its
    keys are in blocks b - 1 and b.

    Source:
        Beltagy et al. 2020, "Longformer", section 3.1 (sliding chunks).
    """
    batch, _, time, _ = q.shape
    n_blocks = -(-time // window)

    def cut(x: Tensor) -> Tensor:
        filled = F.pad(x, (0, 0, 0, n_blocks * window - time))
        return filled.reshape(batch, x.shape[1], n_blocks, window, x.shape[3])

    def with_previous(x: Tensor) -> Tensor:
        blocks = cut(x)
        return torch.cat((F.pad(blocks, (0, 0, 0, 0, 1, 0))[:, :, :-1], blocks), dim=3)

    def side_by_side(x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(0, 1)

    query = torch.arange(window, device=q.device)[:, None]
    key = torch.arange(2 * window, device=q.device)
    is_near = (key > query) & (key <= query + window)
    mask = is_near.repeat(n_blocks, 1, 1, 1)
    mask[0] &= key >= window  # the first block has no previous block
    return Blocks(
        side_by_side(cut(q)),
        KeysAndValues(*(side_by_side(with_previous(part)) for part in read)),
        mask.expand(batch, -1, -1, -1, -1).flatten(0, 1).view(-1, 1, window, 2 * window),
    )


def joined(mixed: Tensor, batch: int, time: int) -> Float[Tensor, "batch heads time d_value"]:
    """The outputs of all blocks, in the order of the text."""
    blocks = mixed.view(batch, -1, *mixed.shape[1:])
    return blocks.transpose(1, 2).flatten(2, 3)[:, :, :time]
