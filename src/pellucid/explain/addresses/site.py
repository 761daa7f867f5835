"""Where an address applies in a trace."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from pellucid.errors import PellucidError
from pellucid.explain.addresses.syntax import split_index
from pellucid.explain.forward_pass import HeadPlace, Side
from pellucid.explain.trace_types import Shape, Trace


class Site(NamedTuple):
    """One address of a trace: `part` is what follows the layer or head in it.

    Of a weight, `part` is the name of the parameter.
    """

    address: str
    part: str
    side: Side
    layer: int = 0
    head: int = 0
    cross: bool = False

    def as_head(self) -> HeadPlace:
        """The head, as ablations name it."""
        return HeadPlace(self.side, self.layer, self.head, self.cross)


def locate_cell(address: str, shape: Shape) -> tuple[int, ...]:
    """The place of the one number that an address with an index points to, counted from 0.

    Args:
        address: such as L2.H1.scores[7, 1]; negative numbers count from the end.
        shape: of the tensor at the address.

    Raises:
        PellucidError: the index names no single number of that tensor.
    """
    name, index = split_index(address)
    numbers = [step for step in index if isinstance(step, int)]
    if len(numbers) != len(shape) or len(index) != len(shape):
        example = f"{name}[{', '.join('0' for _ in shape)}]" if shape else name
        raise PellucidError(
            f"a receipt is of one number, and {address} names {'none' if index else 'all'} of the "
            f"shape {shape}: write it as {example}"
        )
    for number, size in zip(numbers, shape, strict=True):
        if not -size <= number < size:
            raise PellucidError(f"{address} lies outside: {name} has the shape {shape}")
    return tuple(number % size for number, size in zip(numbers, shape, strict=True))


def block_at(trace: Trace, site: Site) -> nn.Module:
    """The block of a layer."""
    return trace.stack_pass(site.side).stack.blocks[site.layer]
