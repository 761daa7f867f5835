"""What one row of the table of addresses states, and where in a trace it applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain.addresses.syntax import split_index
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.forward_pass import HeadPlace, Side
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Gradients, Shape, Trace


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number: an address, and an index for each of its axes, all counted from 0."""

    site: Site
    index: tuple[int, ...]
    axes: tuple[str, ...]

    def selection(self) -> Selection:
        """The same place, as receipts name it: a query, a key and a feature."""
        positions_by_name: dict[str, int] = {}
        for axis, position in zip(self.axes, self.index, strict=True):
            positions_by_name[
                {"time": "token", "query": "token", "key": "other"}.get(axis, "feature")
            ] = position
        site = self.site
        return Selection(
            side=site.side,
            layer=site.layer,
            head=site.head,
            cross=site.cross,
            token=positions_by_name.get("token", 0),
            other=positions_by_name.get("other", 0),
            feature=positions_by_name.get("feature", 0),
        )


def locate_cell(address: str, shape: Shape, axes: tuple[str, ...], site: Site) -> Cell:
    """The one number that an address with an index points to.

    Args:
        address: such as L2.H1.scores[7, 1]; negative numbers count from the end.
        shape: of the tensor at the address.
        axes: the names of its axes.
        site: where in the trace it is.

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
    positions = tuple(number % size for number, size in zip(numbers, shape, strict=True))
    return Cell(site=site, index=positions, axes=axes)


def is_in_every_trace(trace: Trace, site: Site) -> bool:
    """Every trace has it."""
    return True


#: Each returns None, or a reason, if this model has no such number.
Forward = Callable[[Trace, Site], Tensor | None]
Backward = Callable[[Gradients, Site], Tensor | None]
MakeReceipt = Callable[[Trace, Cell], Receipt | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """All that pellucid knows about one kind of address.

    `pattern` holds `{stack}`, `{layer}`, `{head}`, `{parameter}` or the name of a family of parts.
    `backward` and `receipt` are functions, or the reason why there is none. `exists` says whether a
    trace lists the address, `has_gradient` whether it lists its gradient.
    """

    pattern: str
    axes: tuple[str, ...]
    doc: str
    forward: Forward
    backward: Backward | str
    receipt: MakeReceipt | str
    exists: Callable[[Trace, Site], bool] = is_in_every_trace
    has_gradient: Callable[[Trace, Site], bool] = is_in_every_trace
