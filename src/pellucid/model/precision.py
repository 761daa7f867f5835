"""Number formats: the dtype of matrix products, and matrices in few bits."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import BFloat16, Float, Int, Int8, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.native import INT4_GROUP, INT8_BLOCK, Matrix, to_int4, widen
from pellucid.threads import threads

#: The types of matrices; "stored" is that of a published model's file.
Weights = Literal["float32", "bfloat16", "float16", "int8", "stored", "int4"]


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
    """A matrix in few bits: `values`; integers are multiplied by the scale of their block.

    4 bits are kept as `decode.c` reads them: 16 rows lie together, and the values of 32 columns of
    each. Two values are a byte, q + 8 each.

    Attributes:
        scales: one for each block of columns.
        version: torch's version counter of the rounded matrix, which changes if you write to the
            matrix.
        size: rows and columns of 4 bits, which `values` may have more of.
    """

    values: (
        BFloat16[Tensor, "rows columns"]
        | Int8[Tensor, "rows columns"]
        | UInt8[Tensor, "sixteens groups 256"]
    )
    scales: Float[Tensor, "rows blocks"] | BFloat16[Tensor, "sixteens groups 16"] | None
    version: int = 0
    size: tuple[int, int] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self.size or (self.values.shape[0], self.values.shape[1])

    def wide(self, dtype: torch.dtype = torch.float32) -> Float[Tensor, "rows columns"]:
        """The same numbers in float32, exactly; or in bfloat16, rounded."""
        if self.scales is None:
            return self.values.to(dtype)
        if self.values.device.type == "cpu" and dtype in (torch.float32, torch.bfloat16):
            target = torch.empty(self.shape, dtype=dtype)
            if widen(self.as_c_reads_it(target), threads()):
                return target
        if self.size is not None:
            return _from_int4(self.values, self.scales, self.size).to(dtype)
        return (self.values.float() * _by_column(self.scales, self.shape[1])).to(dtype)

    def as_c_reads_it(self, wide: Tensor) -> Matrix:
        """What C needs to know; `wide` has its rows, or is the place for them."""
        rows, columns = self.shape
        assert self.scales is not None
        return Matrix(
            values=self.values.data_ptr(),
            scales=self.scales.data_ptr(),
            wide=wide.data_ptr(),
            rows=rows,
            columns=columns,
            four_bits=self.size is not None,
            half=wide.dtype == torch.bfloat16,
        )

    def rows(self, ids: Int[Tensor, " ids"]) -> Float[Tensor, "ids columns"]:
        """Some rows of it in float32."""
        if self.size is not None:
            return self.wide()[ids]
        return Narrow(self.values[ids], None if self.scales is None else self.scales[ids]).wide()


def device_of(layer: nn.Embedding) -> torch.device:
    """The device of a table, which a packed one does not have to be widened for."""
    packed: Narrow | None = getattr(layer, "packed", None)
    return (layer.weight if packed is None else packed.values).device


def narrowed(matrix: Float[Tensor, "rows columns"], weights: Weights) -> Narrow:
    """The nearest matrix in few bits: bfloat16, or s q with q in -127 ... 127, or in -8 ... 7.

    For 8 bits s = max |block| / 127, one scale for each 256 columns of a row; a block of zeros
    stays zero. For 4 bits see `_to_int4`.

    Source:
        Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", section 2.1 (blocks);
        Dettmers et al. 2022, "LLM.int8()", section 2 (absmax quantization).
    """
    if weights == "bfloat16":
        return Narrow(matrix.bfloat16(), None)
    matrix = matrix.float()
    if weights == "int4":
        return _to_int4(matrix)
    columns = matrix.shape[1]
    padded = F.pad(matrix.abs(), (0, -columns % INT8_BLOCK))
    blocks = padded.view(len(matrix), -1, INT8_BLOCK)
    scales = blocks.amax(dim=2) / 127
    per_scale = _by_column(torch.where(scales > 0, 1 / scales, 0), columns)
    return Narrow((matrix * per_scale).round().clamp(-127, 127).to(torch.int8), scales)


def _by_column(scales: Tensor, columns: int) -> Tensor:
    return scales.repeat_interleave(INT8_BLOCK, dim=1)[:, :columns]


#: Tried scales, as shares of the one that reaches the largest of a group: cutting it off costs less
#: than coarser steps for all others.
_SHARES = (0.94, 0.88, 0.82, 0.76, 1.06, 1.14)


def _to_int4(matrix: Float[Tensor, "rows columns"]) -> Narrow:
    """s q with q in -8 ... 7: for each 32 columns of a row the s, in bfloat16, that errs least.

    A few scales are tried; then the best is fitted to its own q by least squares, s = <w, q> /
    <q, q>, and kept if that errs less.
    """
    rows, columns = matrix.shape
    if matrix.device.type == "cpu":
        shape = (-(-rows // 16), -(-columns // INT4_GROUP))
        values = torch.empty(*shape, 256, dtype=torch.uint8)
        scales = torch.empty(*shape, 16, dtype=torch.bfloat16)
        packed = Narrow(values, scales, size=(rows, columns))
        if to_int4(packed.as_c_reads_it(matrix.contiguous()), _SHARES, threads()):
            return packed
    padded = F.pad(matrix, (0, -columns % INT4_GROUP, 0, -rows % 16))
    groups = padded.view(-1, INT4_GROUP)
    largest = groups.gather(1, groups.abs().argmax(dim=1, keepdim=True))

    def rounded(scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scale = scale.bfloat16().float()
        q = (groups * torch.where(scale == 0, 0, 1 / scale)).round_().clamp_(-8, 7)
        return scale, q, (q * scale - groups).square_().sum(dim=1, keepdim=True)

    scale, q, error = rounded(largest / -8)

    def better(other: Tensor) -> None:
        nonlocal scale, q, error
        candidate, new_q, new_error = rounded(other)
        least = new_error < error
        scale, error = torch.where(least, candidate, scale), torch.where(least, new_error, error)
        q = torch.where(least, new_q, q)

    for share in _SHARES:
        better(largest / (-8 * share))
    better((groups * q).sum(dim=1, keepdim=True) / (q * q).sum(dim=1, keepdim=True).clamp(min=1))
    width = padded.shape[1]
    q, scale = q.view(-1, width)[:rows, :columns], scale.view(-1, width // INT4_GROUP)[:rows]
    return lay_out_int4(q, scale)


def lay_out_int4(q: Float[Tensor, "rows columns"], scales: Float[Tensor, "rows groups"]) -> Narrow:
    """Whole numbers from -8 to 7, and the scale of each 32 of a row, in the order of reading."""
    rows, columns = q.shape
    n_groups = scales.shape[1]
    integers = F.pad(q, (0, -columns % INT4_GROUP, 0, -rows % 16)).to(torch.int8)
    # (sixteens, 16 rows, groups, 2 halves of a byte, 4 fours of columns, 4)
    halves = (integers + 8).to(torch.uint8).view(-1, 16, n_groups, 2, 4, 4)
    pairs = (halves[:, :, :, 0] | halves[:, :, :, 1] << 4).permute(0, 2, 3, 1, 4)
    by_sixteens = F.pad(scales, (0, 0, 0, -rows % 16)).view(-1, 16, n_groups).transpose(1, 2)
    return Narrow(
        pairs.reshape(*pairs.shape[:2], 256),
        by_sixteens.bfloat16().contiguous(),
        size=(rows, columns),
    )


def _from_int4(
    values: Tensor, scales: Tensor, size: tuple[int, int]
) -> Float[Tensor, "rows columns"]:
    sixteens, groups, _ = values.shape
    fours = values.view(sixteens, groups, 4, 16, 4)
    halves = torch.stack((fours & 15, fours >> 4), dim=2).float() - 8
    numbers = halves * scales.float().view(sixteens, groups, 1, 1, 16, 1)
    by_row = numbers.permute(0, 4, 1, 2, 3, 5).reshape(sixteens * 16, groups * INT4_GROUP)
    rows, columns = size
    return by_row[:rows, :columns].contiguous()
