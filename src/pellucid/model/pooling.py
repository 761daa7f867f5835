"""From the states of a text's tokens to one vector; padding on either side changes nothing."""

from __future__ import annotations

from typing import Literal, assert_never

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Pooling = Literal["first", "mean", "last"]


def padding_behind(
    ids: Int[Tensor, "batch time"], padding: Bool[Tensor, "batch time"]
) -> tuple[Int[Tensor, "batch time"], Bool[Tensor, "batch time"]]:
    """The order that puts the real tokens of each text first, and which are real in that order.

    In this order a text with padding in front or inside has the same states as without padding, for
    all positions and kinds of attention. Rows with padding at the end stay as they are.
    """
    order = padding.logical_not().to(torch.uint8).argsort(dim=1, stable=True)
    return order, padding.gather(1, order)


def pool(
    states: Float[Tensor, "batch time d_model"],
    padding: Bool[Tensor, "batch time"] | None,
    pooling: Pooling,
) -> Float[Tensor, "batch d_model"]:
    """One vector for each text; padding must be at the end.

    Args:
        states: (batch, time, d_model), the last states.
        padding: True where a token is real, at least one per text; None if all are.
        pooling: the state of the first token, of the last real one, or the mean of the real ones.
    """
    match pooling:
        case "first":
            return states[:, 0]
        case "mean":
            if padding is None:
                return states.mean(dim=1)
            unpadded = states.masked_fill(~padding[..., None], 0.0)
            return unpadded.sum(dim=1) / padding.sum(dim=1, keepdim=True)
        case "last":
            if padding is None:
                return states[:, -1]
            rows = torch.arange(len(states), device=states.device)
            return states[rows, padding.sum(dim=1) - 1]
        case _:
            assert_never(pooling)
