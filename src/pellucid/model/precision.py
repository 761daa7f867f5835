"""The formats of numbers: in which dtype products are computed, and matrices in few bits."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import BFloat16, Float, Int8
from torch import Tensor
from torch.nn import functional as F

from pellucid.native import INT8_BLOCK

#: What matrices are kept in.
Weights = Literal["float32", "bfloat16", "int8"]


def for_products(x: Tensor) -> Tensor:
    """Under autocast, `x` in its dtype: cast once here, and not again by every product."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


def wide(x: Tensor) -> Tensor:
    """`x` in float32 at least: for sums over a whole text."""
    return x if x.dtype == torch.float64 else x.float()


def as_given(device: torch.device) -> torch.autocast:
    """Within it, products are in the dtype of what is multiplied, whatever autocast says."""
    return torch.autocast(device.type, enabled=False)


class Narrow(NamedTuple):
    """A matrix in few bits: `values`, those of int8 times the scale of their block."""

    values: BFloat16[Tensor, "rows columns"] | Int8[Tensor, "rows columns"]
    scales: Float[Tensor, "rows blocks"] | None
    #: torch's count of what was done to the rounded matrix: it moves where that is written to
    version: int = 0

    def wide(self) -> Float[Tensor, "rows columns"]:
        """The numbers in float32: exactly those that the few bits say."""
        wide = self.values.float()
        return wide if self.scales is None else wide * _by_column(self.scales, wide.shape[1])


def narrowed(matrix: Float[Tensor, "rows columns"], weights: Weights) -> Narrow:
    """The nearest that few bits can say: bfloat16, or s q with q in -127 ... 127.

    s = max |block| / 127, one for each 256 columns of a row; a block of zeros stays one.

    Source:
        Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", section 2.1 (blocks);
        Dettmers et al. 2022, "LLM.int8()", section 2 (absmax quantization).
    """
    if weights == "bfloat16":
        return Narrow(matrix.bfloat16(), None)
    matrix = matrix.float()
    columns = matrix.shape[1]
    padded = F.pad(matrix.abs(), (0, -columns % INT8_BLOCK))
    blocks = padded.view(len(matrix), -1, INT8_BLOCK)
    scales = blocks.amax(dim=2) / 127
    per_scale = _by_column(torch.where(scales > 0, 1 / scales, 0), columns)
    return Narrow((matrix * per_scale).round().clamp(-127, 127).to(torch.int8), scales)


def _by_column(scales: Tensor, columns: int) -> Tensor:
    return scales.repeat_interleave(INT8_BLOCK, dim=1)[:, :columns]
