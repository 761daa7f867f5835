"""The published tensor of each parameter, and its layout.

    "decoder.blocks.{n}.attention.query.weight": Source("transformer.h.{n}.attn.c_attn.weight",
                                                        third=0, transposed=True)

Each family has one table, which works in both directions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A published tensor that contains a parameter.

    Attributes:
        name: of the tensor.
        third: 0, 1 or 2 if the tensor has queries, keys and values together, and this is one.
        by_head: whether it has the three of one head after another, instead of all queries first.
        transposed: whether it is stored as (in, out).
    """

    name: str
    third: int | None = None
    by_head: bool = False
    transposed: bool = False

    def shape(self, parameter_shape: Shape) -> Shape:
        """The shape of the published tensor, from the shape of the parameter."""
        rows = parameter_shape[0] if self.third is None else 3 * parameter_shape[0]
        shape = (rows, *parameter_shape[1:])
        return shape[::-1] if self.transposed else shape

    def take(self, published: Tensor, *, n_heads: int) -> Tensor:
        """The parameter in a published tensor: the same memory if the layout is the same."""
        tensor = published.t() if self.transposed and published.ndim == 2 else published
        if self.third is None:
            return tensor
        return self._thirds(tensor, n_heads)[self.third].flatten(0, 1)

    def join(self, parameters: Sequence[Tensor], *, n_heads: int) -> Tensor:
        """The published tensor of one parameter, or of queries, keys and values."""
        if self.third is None:
            (tensor,) = parameters
        else:
            heads = [part.reshape(n_heads, -1, *part.shape[1:]) for part in parameters]
            tensor = torch.stack(heads, dim=1 if self.by_head else 0).flatten(0, 2)
        return tensor.t() if self.transposed and tensor.ndim == 2 else tensor

    def _thirds(self, tensor: Tensor, n_heads: int) -> Tensor:
        """(3, heads, d_head, ...), a view."""
        if self.by_head:
            return tensor.view(n_heads, 3, -1, *tensor.shape[1:]).transpose(0, 1)
        return tensor.reshape(3, n_heads, -1, *tensor.shape[1:])


Names = Mapping[str, Source]


def linear(
    path: str,
    published: str,
    *,
    third: int | None = None,
    by_head: bool = False,
    transposed: bool = False,
) -> Iterator[tuple[str, Source]]:
    """The rows of a linear layer: weight and bias, even if it has no bias."""
    for part in ("weight", "bias"):
        yield f"{path}.{part}", Source(f"{published}.{part}", third, by_head, transposed)


def norm(path: str, published: str) -> Iterator[tuple[str, Source]]:
    """The rows of a norm: the gain is published as weight."""
    yield f"{path}.gain", Source(f"{published}.weight")
    yield f"{path}.bias", Source(f"{published}.bias")


_LAYER = re.compile(r"\.blocks\.(\d+)\.")


def source_of(parameter: str, names: Names) -> Source | None:
    """The source of a parameter; None if the family has no such parameter."""
    layer = _LAYER.search(parameter)
    if layer is None or parameter in names:
        return names.get(parameter)
    source = names.get(_LAYER.sub(".blocks.{n}.", parameter, count=1))
    return None if source is None else replace(source, name=source.name.replace("{n}", layer[1]))
