"""Number formats: the dtype of matrix products, and matrices in few bits."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import BFloat16, Float, Int8
from torch import Tensor
from torch.nn import functional as F

from pellucid.native import INT8_BLOCK

#: The types of matrices; "stored" is that of a published model's file.
Weights = Literal["float32", "bfloat16", "float16", "int8", "stored"]


def for_products(x: Tensor) -> Tensor:
    """`x` in autocast's dtype, if it is on: cast once here instead of in every product."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


def wide(x: Tensor) -> Tensor:
    """`x` in float32 at least, for sums over a whole text."""
    return x if x.dtype == torch.float64 else x.float()


def as_given(device: torch.device) -> torch.autocast:
    """A context without autocast: products are in the dtype of their factors."""
    return torch.autocast(device.type, enabled=False)


class Narrow(NamedTuple):
    """A matrix in few bits: `values`; int8 values are multiplied by the scale of their block."""

    values: BFloat16[Tensor, "rows columns"] | Int8[Tensor, "rows columns"]
    scales: Float[Tensor, "rows blocks"] | None
    #: torch's version counter of the rounded matrix, which changes if you write to the matrix
    version: int = 0

    def wide(self) -> Float[Tensor, "rows columns"]:
        """The same numbers in float32, exactly."""
        wide = self.values.float()
        return wide if self.scales is None else wide * _by_column(self.scales, wide.shape[1])


def narrowed(matrix: Float[Tensor, "rows columns"], weights: Weights) -> Narrow:
    """The nearest matrix in few bits: bfloat16, or s q with q in -127 ... 127.

    s = max |block| / 127, one scale for each 256 columns of a row; a block of zeros stays zero.

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
