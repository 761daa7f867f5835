"""A matrix in few bits: rounded to what bfloat16 or eight bits can say.

Comes in: a matrix. Goes out: the nearest numbers that few bits can say. It knows no model.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import BFloat16, Float, Int8
from torch import Tensor

#: What matrices are kept in.
Weights = Literal["float32", "bfloat16", "int8"]


class Narrow(NamedTuple):
    """A matrix in few bits: `values`, of int8 times the scale of their row."""

    values: BFloat16[Tensor, "rows columns"] | Int8[Tensor, "rows columns"]
    scales: Float[Tensor, " rows"] | None
    #: torch's count of what was done to the rounded matrix: it moves where that is written to
    version: int = 0

    def wide(self) -> Float[Tensor, "rows columns"]:
        """The numbers in float32, exactly."""
        wide = self.values.float()
        return wide if self.scales is None else wide * self.scales[:, None]


def narrowed(matrix: Float[Tensor, "rows columns"], weights: Weights) -> Narrow:
    """The nearest that few bits can say: bfloat16, or s q with q in -127 ... 127.

    s = max |row| / 127, one for each row; a row of zeros stays one.

    Source:
        Dettmers et al. 2022, "LLM.int8()", section 2 (absmax quantization, by row).
    """
    if weights == "bfloat16":
        return Narrow(matrix.bfloat16(), None)
    matrix = matrix.float()
    scales = matrix.abs().amax(dim=1) / 127
    per_scale = torch.where(scales > 0, 1 / scales, 0)
    return Narrow((matrix * per_scale[:, None]).round().clamp(-127, 127).to(torch.int8), scales)
