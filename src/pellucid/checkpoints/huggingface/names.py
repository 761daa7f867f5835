"""Where a tensor of ours stands in a published file, and how it lies there.

    "decoder.blocks.{n}.attention.query.weight": Source("transformer.h.{n}.attn.c_attn.weight",
                                                        third=0, transposed=True)

One table per family, read in both directions. Comes in: tensors. Goes out: the same numbers under
the other name. It does not know files or families.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor in their file.

    `third`: it holds queries, keys and values at once, of which this is one; `by_head`: one head
    after another has its three, in place of all queries before all keys. `transposed`: it lies as
    (in, out).
    """

    name: str
    third: int | None = None
    by_head: bool = False
    transposed: bool = False

    def shape(self, ours: Shape) -> Shape:
        """The shape of their tensor, from that of ours."""
        rows = ours[0] if self.third is None else 3 * ours[0]
        shape = (rows, *ours[1:])
        return shape[::-1] if self.transposed else shape

    def take(self, theirs: Tensor, *, n_heads: int) -> Tensor:
        """Our tensor out of theirs: the same memory where it lies as ours does."""
        tensor = theirs.t() if self.transposed and theirs.ndim == 2 else theirs
        if self.third is None:
            return tensor
        return self._thirds(tensor, n_heads)[self.third].flatten(0, 1)

    def join(self, ours: Sequence[Tensor], *, n_heads: int) -> Tensor:
        """Their tensor out of ours: of one, or of queries, keys and values."""
        if self.third is None:
            (tensor,) = ours
        else:
            heads = [part.reshape(n_heads, -1, *part.shape[1:]) for part in ours]
            tensor = torch.stack(heads, dim=1 if self.by_head else 0).flatten(0, 2)
        return tensor.t() if self.transposed and tensor.ndim == 2 else tensor

    def _thirds(self, tensor: Tensor, n_heads: int) -> Tensor:
        """(3, heads, d_head, ...), a view."""
        if self.by_head:
            return tensor.view(n_heads, 3, -1, *tensor.shape[1:]).transpose(0, 1)
        return tensor.reshape(3, n_heads, -1, *tensor.shape[1:])


Names = Mapping[str, Source]


def linear(
    ours: str,
    theirs: str,
    *,
    third: int | None = None,
    by_head: bool = False,
    transposed: bool = False,
) -> Iterator[tuple[str, Source]]:
    """The rows of a linear layer: weight and bias, where it has one."""
    for part in ("weight", "bias"):
        yield f"{ours}.{part}", Source(f"{theirs}.{part}", third, by_head, transposed)


def norm(ours: str, theirs: str) -> Iterator[tuple[str, Source]]:
    """The rows of a norm: our gain is their weight."""
    yield f"{ours}.gain", Source(f"{theirs}.weight")
    yield f"{ours}.bias", Source(f"{theirs}.bias")


_LAYER = re.compile(r"\.blocks\.(\d+)\.")


def source_of(ours: str, names: Names) -> Source | None:
    """Where the parameter `ours` stands; None where the family has no such parameter."""
    layer = _LAYER.search(ours)
    if layer is None or ours in names:
        return names.get(ours)
    layer_source = names.get(_LAYER.sub(".blocks.{n}.", ours, count=1))
    if layer_source is None:
        return None
    name = layer_source.name.replace("{n}", layer[1])
    return Source(name, layer_source.third, layer_source.by_head, layer_source.transposed)
