"""A formula over named axes: `Total("j", n, Read("x", ("t", "j")) * Read("W", ("i", "j")))`.

Axes that no `Total` sums over are free: they are the axes of the result. One formula has three
readings: all numbers at once (`evaluation.py`), one number with its operands (`trees.py`), and the
formula of a gradient (`derive.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

import torch
from torch import Tensor

from pellucid.explain.expressions import Binary, Unary


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Indices that depend on axes of the formula: the token ids, a head's slice, a partner.

    `address` is where the indices themselves are, if they are numbers of the trace; there they
    begin at the place `offset`.
    """

    values: Tensor
    axes: tuple[str, ...]
    address: str = ""
    offset: int = 0


#: The index of one axis of a tensor: an axis of the formula, one place, or places that depend.
Index = str | int | Places


class Formula:
    """The operators of formulas."""

    __slots__ = ()

    def __add__(self, other: Formula | float) -> Map:
        return Map("add", (self, wrap(other)))

    def __radd__(self, other: float) -> Map:
        return Map("add", (wrap(other), self))

    def __sub__(self, other: Formula | float) -> Map:
        return Map("sub", (self, wrap(other)))

    def __rsub__(self, other: float) -> Map:
        return Map("sub", (wrap(other), self))

    def __mul__(self, other: Formula | float) -> Map:
        return Map("mul", (self, wrap(other)))

    def __rmul__(self, other: float) -> Map:
        return Map("mul", (wrap(other), self))

    def __truediv__(self, other: Formula | float) -> Map:
        return Map("div", (self, wrap(other)))

    def __rtruediv__(self, other: float) -> Map:
        return Map("div", (wrap(other), self))

    def __pow__(self, exponent: float) -> Map:
        return Map("pow", (self, wrap(exponent)))

    def __neg__(self) -> Map:
        return Map("neg", (self,))

    def apply(self, name: Unary) -> Map:
        """A function of each number."""
        return Map(name, (self,))

    def clamp_min(self, bound: float) -> Map:
        """The larger of each number and a bound."""
        return Map("max", (self, wrap(bound)))

    def clamp_max(self, bound: float) -> Map:
        """The smaller of each number and a bound."""
        return Map("min", (self, wrap(bound)))


@dataclass(frozen=True, slots=True, eq=False)
class Read(Formula):
    """The numbers at an address of the trace, one index for each of its axes."""

    address: str
    index: tuple[Index, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Formula):
    """Numbers without an address: settings, distances, what a place is."""

    values: Tensor
    axes: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Map(Formula):
    """An operator on each number; parts that lack an axis are repeated along it."""

    name: Unary | Binary | Literal["max", "min"]
    parts: tuple[Formula, ...]


#: Where a sum or a number counts: numbers that are 0 where it does not.
Mask = Read | Constant


@dataclass(frozen=True, slots=True, eq=False)
class Total(Formula):
    """The sum over an axis of so many places; with `mask`, over those where that is not 0."""

    axis: str
    size: int
    part: Formula
    mask: Mask | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Largest(Formula):
    """The largest over an axis. Its gradient counts as 0: a softmax does not depend on it."""

    axis: str
    size: int
    part: Formula
    mask: Mask | None = None
    #: one more candidate, without the axis
    candidate: Formula | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Series(Formula):
    """A sum of different parts: of heads, of experts, of consumers."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Masked(Formula):
    """The part where the mask is not 0, and 0 elsewhere."""

    mask: Mask
    part: Formula


Node = Read | Constant | Map | Total | Largest | Series | Masked


def wrap(value: Formula | float) -> Formula:
    """A plain number as a formula."""
    return value if isinstance(value, Formula) else setting(float(value))


def setting(value: float, name: str = "") -> Constant:
    """One number that is the same everywhere."""
    return Constant(torch.tensor(float(value), dtype=torch.float64), (), name)


def as_node(formula: Formula) -> Node:
    """The formula as the union of its kinds, for `match`."""
    assert isinstance(formula, Read | Constant | Map | Total | Largest | Series | Masked)
    return formula


def axes_of(formula: Formula) -> frozenset[str]:
    """The free axes."""
    node = as_node(formula)
    match node:
        case Read(index=index):
            return frozenset(axis for step in index for axis in _axes_of_index(step))
        case Constant(axes=axes):
            return frozenset(axes)
        case Map(parts=parts) | Series(parts=parts):
            return frozenset[str]().union(*map(axes_of, parts))
        case Total(axis=axis, part=part, mask=mask):
            masked = frozenset[str]() if mask is None else axes_of(mask)
            return (axes_of(part) | masked) - {axis}
        case Largest(axis=axis, part=part, mask=mask, candidate=candidate):
            masked = frozenset[str]() if mask is None else axes_of(mask)
            extra = frozenset[str]() if candidate is None else axes_of(candidate)
            return (axes_of(part) | masked) - {axis} | extra
        case Masked(mask=mask, part=part):
            return axes_of(mask) | axes_of(part)
        case _:
            assert_never(node)


def _axes_of_index(step: Index) -> tuple[str, ...]:
    match step:
        case str():
            return (step,)
        case int():
            return ()
        case Places(axes=axes):
            return axes
        case _:
            assert_never(step)


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """The formulas that a formula is made of."""
    node = as_node(formula)
    match node:
        case Read() | Constant():
            return ()
        case Map(parts=parts) | Series(parts=parts):
            return parts
        case Total(part=part, mask=mask):
            return (part,) if mask is None else (part, mask)
        case Largest(part=part, mask=mask, candidate=candidate):
            return tuple(x for x in (part, mask, candidate) if x is not None)
        case Masked(mask=mask, part=part):
            return (part, mask)
        case _:
            assert_never(node)


def reads_of(formula: Formula) -> Iterator[Read]:
    """Every address that a formula reads, masks included."""
    if isinstance(formula, Read):
        yield formula
    for part in parts_of(formula):
        yield from reads_of(part)


def rename_axes(formula: Formula, names: dict[str, str] | str, scope: str = "") -> Formula:
    """The formula with other names of its axes, free and summed; a text is a suffix for all.

    `scope` is put before every address.
    """

    def name(axis: str) -> str:
        return f"{axis}{names}" if isinstance(names, str) else names.get(axis, axis)

    def index(step: Index) -> Index:
        match step:
            case str():
                return name(step)
            case int():
                return step
            case Places(values=values, axes=axes, address=address, offset=offset):
                return Places(values, tuple(map(name, axes)), address and scope + address, offset)
            case _:
                assert_never(step)

    def rename_mask(mask: Mask | None) -> Mask | None:
        if mask is None:
            return None
        renamed = change(mask)
        assert isinstance(renamed, Read | Constant)
        return renamed

    memory: dict[int, Formula] = {}

    def change(part: Formula) -> Formula:
        if id(part) not in memory:
            memory[id(part)] = _change(as_node(part))
        return memory[id(part)]

    def _change(node: Node) -> Formula:
        match node:
            case Read(address=address, index=steps, name=text):
                return Read(scope + address, tuple(map(index, steps)), text)
            case Constant(values=values, axes=axes, name=text):
                return Constant(values, tuple(map(name, axes)), text)
            case Map(name=operator, parts=parts):
                return Map(operator, tuple(map(change, parts)))
            case Series(parts=parts):
                return Series(tuple(map(change, parts)))
            case Total(axis=axis, size=size, part=part, mask=mask):
                return Total(name(axis), size, change(part), rename_mask(mask))
            case Largest(axis=axis, size=size, part=part, mask=mask, candidate=candidate):
                extra = None if candidate is None else change(candidate)
                return Largest(name(axis), size, change(part), rename_mask(mask), extra)
            case Masked(mask=mask, part=part):
                renamed = rename_mask(mask)
                assert renamed is not None
                return Masked(renamed, change(part))
            case _:
                assert_never(node)

    return change(formula)


def factors_of(formula: Formula) -> list[Formula]:
    """The factors of a product."""
    if isinstance(formula, Map) and formula.name == "mul":
        return [factor for part in formula.parts for factor in factors_of(part)]
    return [formula]
