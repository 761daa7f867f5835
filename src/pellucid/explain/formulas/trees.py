"""One number of a formula as a tree of operands, and the list of all operands.

A tree writes out the largest terms of a long sum; one number holds the others. The list of operands
has all of them, each by the address of its number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import assert_never

import torch
from torch import Tensor

from pellucid.explain.chapter_types import Operand
from pellucid.explain.expressions import Apply, Expression, Number, Vector, apply, constant
from pellucid.explain.formulas.evaluation import Evaluation, ReadTensor
from pellucid.explain.formulas.nodes import (
    Constant,
    Formula,
    Index,
    Largest,
    Map,
    Mask,
    Masked,
    Places,
    Read,
    Series,
    Total,
    as_node,
    axes_of,
    factors_of,
)
from pellucid.typed import to_list

#: A tree writes out this many terms of a sum; one number holds the sum of the others.
TERMS_SHOWN = 64
#: Axes and their places.
Env = Mapping[str, int]
_ZERO = Number(0.0)


def cell(address: str, *index: int | str) -> str:
    """The address of one number or row: L2.H1.scores[7, 1]."""
    return f"{address}[{', '.join(map(str, index))}]" if index else address


class TreeBuilder:
    """Makes the trees of formulas of one trace."""

    def __init__(self, read: ReadTensor) -> None:
        self._read = read

    def build(self, formula: Formula, env: Env) -> Expression:
        """The tree of the number at the given places of the free axes."""
        node = as_node(formula)
        match node:
            case Read(name=name):
                index = _resolve(node, env)
                value = float(self._read(node.address)[index])
                return Number(value, name, cell(node.address, *index))
            case Constant(values=values, axes=axes, name=name):
                return constant(float(values[tuple(env[axis] for axis in axes)]), name)
            case Map(name=name, parts=parts):
                return apply(name, *(self.build(part, env) for part in parts))
            case Series(parts=parts):
                trees = [self.build(part, env) for part in parts]
                return _sum([tree for tree in trees if tree is not _ZERO])
            case Masked(mask=mask, part=part):
                return self.build(part, env) if self._is_seen(mask, env) else _ZERO
            case Total():
                return self._total(node, env)
            case Largest():
                return Number(self._value(node, env), "max")
            case _:
                assert_never(node)

    def operands(self, formula: Formula, env: Env) -> tuple[Operand, ...]:
        """All numbers that the number at these places is made of, each once."""
        return tuple(dict.fromkeys(self._operands(formula, env)))

    def _operands(self, formula: Formula, env: Env) -> Iterator[Operand]:
        node = as_node(formula)
        match node:
            case Read():
                index = _resolve(node, env)
                value = float(self._read(node.address)[index])
                yield Operand(cell(node.address, *index), value)
                for step in node.index:
                    if isinstance(step, Places) and step.address:
                        place = tuple(env[axis] for axis in step.axes)
                        first, *others = place
                        address = cell(step.address, first + step.offset, *others)
                        yield Operand(address, float(step.values[place]))
            case Constant():
                pass
            case Map(parts=parts) | Series(parts=parts):
                for part in parts:
                    yield from self._operands(part, env)
            case Masked(mask=mask, part=part):
                yield from self._operands(mask, env)
                if self._is_seen(mask, env):
                    yield from self._operands(part, env)
            case Total(axis=axis, part=part) | Largest(axis=axis, part=part):
                for place in self._places(node, env):
                    yield from self._operands(part, {**env, axis: place})
                    if node.mask is not None:
                        yield from self._operands(node.mask, {**env, axis: place})
                if isinstance(node, Largest) and node.candidate is not None:
                    yield from self._operands(node.candidate, env)
            case _:
                assert_never(node)

    def _is_seen(self, mask: Mask, env: Env) -> bool:
        return bool(self._value(mask, env))

    def _value(self, formula: Formula, env: Env) -> float:
        free = {axis: env[axis] for axis in axes_of(formula)}
        return float(Evaluation(self._read, free)(formula).value)

    def _places(self, node: Total | Largest, env: Env) -> list[int]:
        """The places of the axis that count."""
        if node.mask is None:
            return list(range(node.size))
        return to_list(self._along_axis(node.mask, node.axis, node.size, env).nonzero().flatten())

    def _along_axis(self, formula: Formula, axis: str, size: int, env: Env) -> Tensor:
        """(places,): the numbers along an axis, at the given places of the others."""
        free = {name: env[name] for name in axes_of(formula) if name != axis}
        return Evaluation(self._read, free)(formula).value.flatten().expand(size)

    def _total(self, node: Total, env: Env) -> Expression:
        axis, places = node.axis, self._places(node, env)
        if not places:
            return _ZERO
        factors = factors_of(node.part)
        varying = [factor for factor in factors if axis in axes_of(factor)]
        if node.mask is None and 1 <= len(varying) <= 2:
            rows = [self._row(factor, axis, node.size, env) for factor in varying]
            vectors = [row for row in rows if row is not None]
            if len(vectors) == len(varying):
                tree: Expression = (
                    vectors[0].sum() if len(vectors) == 1 else vectors[0] @ vectors[1]
                )
                for factor in factors:
                    if factor not in varying:
                        tree = self.build(factor, env) * tree
                return tree
        if len(places) <= TERMS_SHOWN:
            return _sum([self.build(node.part, {**env, axis: place}) for place in places])
        values = self._along_axis(node.part, axis, node.size, env)[places]
        order: list[int] = to_list(values.abs().argsort(descending=True, stable=True))
        largest = [self.build(node.part, {**env, axis: places[n]}) for n in order[:TERMS_SHOWN]]
        others: list[float] = to_list(values[order[TERMS_SHOWN:]])
        return apply("sum", *largest, Number(math.fsum(others), f"{len(others):,} more"))

    def _row(self, factor: Formula, axis: str, size: int, env: Env) -> Vector | None:
        """The numbers of a factor along an axis as one row; None if it is itself a formula."""
        if isinstance(factor, Series) and all(
            isinstance(part, Masked) and isinstance(part.part, Read) for part in factor.parts
        ):  # heads side by side: each number has an address of its own
            return Vector(tuple(to_list(self._along_axis(factor, axis, size, env))), "heads")
        if not isinstance(factor, Read | Constant):
            return None
        values = tuple(to_list(self._along_axis(factor, axis, size, env)))
        if isinstance(factor, Constant):
            return Vector(values, factor.name)
        steps = [_slice_of(step, axis, size, env) for step in factor.index]
        if steps[-1:] == [":"] and len(steps) > 1:
            steps.pop()
        address = (
            "" if None in steps else cell(factor.address, *(s for s in steps if s is not None))
        )
        return Vector(values, factor.name, address)


def _sum(trees: list[Expression]) -> Expression:
    if not trees:
        return _ZERO
    return trees[0] if len(trees) == 1 else Apply("sum", tuple(trees))


def _resolve(leaf: Read, env: Env) -> tuple[int, ...]:
    return tuple(_resolve_index(step, env) for step in leaf.index)


def _resolve_index(step: Index, env: Env) -> int:
    match step:
        case int():
            return step
        case str():
            return env[step]
        case Places(values=values, axes=axes):
            return int(values[tuple(env[axis] for axis in axes)])
        case _:
            assert_never(step)


def _slice_of(step: Index, axis: str, size: int, env: Env) -> int | str | None:
    """One index of the address of a row: a place, a stretch; None if places are not in a row."""
    if step == axis:
        return ":"
    if not isinstance(step, Places) or axis not in step.axes:
        return _resolve_index(step, env)
    places = step.values[tuple(slice(None) if name == axis else env[name] for name in step.axes)]
    first = int(places[0])
    if torch.equal(places, torch.arange(first, first + size)):
        return f"{first}:{first + size}"
    return None
