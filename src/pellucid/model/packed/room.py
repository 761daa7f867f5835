"""One stretch of memory for a model's packed matrices, filled some rows at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.model.precision import Narrow, Weights, narrowed
from pellucid.native import INT4_GROUP, INT8_BLOCK, huge_buffer

#: Numbers that are read at a time.
_NUMBERS_PER_READ = 2**16
#: Bytes of a cache line, at which each tensor starts.
_LINE = 64

#: Reads rows of a matrix, from the first up to the last, in any float type.
ReadRows = Callable[[int, int], Tensor]


class _Form(NamedTuple):
    """The shapes of a packed matrix."""

    values: tuple[int, ...]
    dtype: torch.dtype
    scales: tuple[int, ...] = ()
    scale_dtype: torch.dtype = torch.float32


def _form(rows: int, columns: int, weights: Weights) -> _Form:
    if weights == "bfloat16":
        return _Form((rows, columns), torch.bfloat16)
    if weights == "int8":
        return _Form((rows, columns), torch.int8, (rows, -(-columns // INT8_BLOCK)))
    sixteens, groups = -(-rows // 16), -(-columns // INT4_GROUP)
    return _Form((sixteens, groups, 256), torch.uint8, (sixteens, groups, 16), torch.bfloat16)


def room_bytes(shapes: Mapping[str, tuple[int, int]], kinds: Mapping[str, Weights]) -> int:
    """The size of the memory for these matrices."""
    return sum(map(_form_bytes, _forms(shapes, kinds).values()))


class Room:
    """One stretch of memory for packed matrices, one after another.

    Args:
        shapes: rows and columns of each matrix.
        kinds: its type.
        memory: bytes in which the matrices are packed already; new memory without.
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, int]],
        kinds: Mapping[str, Weights],
        memory: Tensor | None = None,
    ) -> None:
        self.kinds = kinds
        self._forms, self._shapes = _forms(shapes, kinds), shapes
        sizes = map(_form_bytes, self._forms.values())
        self._starts = dict(zip(self._forms, accumulate(sizes, initial=0), strict=False))
        if memory is None:
            size = max(1, room_bytes(shapes, kinds))
            memory = torch.frombuffer(huge_buffer(size), dtype=torch.uint8)
        self.memory = memory

    def place(self, name: str) -> Narrow:
        """The place of a matrix, with what is there."""
        form, start = self._forms[name], self._starts[name]
        values = self._view(start, form.values, form.dtype)
        start += _bytes(form.values, form.dtype)
        scales = self._view(start, form.scales, form.scale_dtype) if form.scales else None
        size = self._shapes[name] if self.kinds[name] == "int4" else None
        return Narrow(values, scales, size=size)

    def shape(self, name: str) -> tuple[int, int]:
        """Rows and columns of a matrix."""
        return self._shapes[name]

    def fill(self, name: str, read: ReadRows) -> Narrow:
        """The packed matrix, read some rows at a time."""
        rows, columns = self._shapes[name]
        place, step = self.place(name), max(16, _NUMBERS_PER_READ // columns // 16 * 16)
        per_line = 16 if place.size else 1
        for first in range(0, rows, step):
            part = narrowed(read(first, min(first + step, rows)), self.kinds[name])
            lines = slice(first // per_line, first // per_line + len(part.values))
            place.values[lines] = part.values
            if place.scales is not None and part.scales is not None:
                place.scales[lines] = part.scales
        return place

    def put(self, name: str, packed: Narrow) -> Narrow:
        """The place of a matrix, with one that is packed already."""
        place = self.place(name)
        place.values.copy_(packed.values)
        if place.scales is not None and packed.scales is not None:
            place.scales.copy_(packed.scales)
        return place

    def _view(self, start: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        part = self.memory[start : start + math.prod(shape) * dtype.itemsize]
        return part.view(dtype).view(shape)


def _forms(shapes: Mapping[str, tuple[int, int]], kinds: Mapping[str, Weights]) -> dict[str, _Form]:
    return {name: _form(*shape, kinds[name]) for name, shape in shapes.items()}


def _form_bytes(form: _Form) -> int:
    return _bytes(form.values, form.dtype) + _bytes(form.scales, form.scale_dtype)


def _bytes(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    return -(-math.prod(shape) * dtype.itemsize // _LINE) * _LINE if shape else 0
