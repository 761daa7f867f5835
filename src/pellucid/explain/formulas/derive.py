"""The formula of a gradient, from the formulas of all numbers that read the address.

If y = f(x), dL/dx is the sum over all y of dL/dy dy/dx: back through the operators of f, one by
one. Names of axes of f get a mark first, so that none of them is taken for an axis of x.

Source:
    Griewank and Walther 2008, "Evaluating Derivatives", section 3.2 (the reverse mode).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import assert_never

import torch

from pellucid.explain.formulas.nodes import (
    Constant,
    Formula,
    Index,
    Largest,
    Map,
    Masked,
    Places,
    Read,
    Series,
    Total,
    as_node,
    axes_of,
    rename_axes,
    setting,
)

_MARK = "'"


def pull_back(
    formula: Formula,
    upstream: Formula,
    address: str,
    axes: tuple[str, ...],
    sizes: Mapping[str, int],
    shape: tuple[int, ...],
) -> list[Formula]:
    """The terms of dL/dx along the ways from x to y.

    Args:
        formula: of y.
        upstream: dL/dy, over the free axes of y.
        address: of x.
        axes: of dL/dx.
        sizes: of the free axes of y.
        shape: of x.
    """
    marked, outer = rename_axes(formula, _MARK), rename_axes(upstream, _MARK)
    lengths = {f"{axis}{_MARK}": size for axis, size in sizes.items()}
    return [
        _onto_axes(leaf, adjoint, axes, lengths | own_lengths, shape)
        for leaf, adjoint, own_lengths in _walk(marked, outer, lengths)
        if leaf.address == address
    ]


def _walk(
    formula: Formula, adjoint: Formula, lengths: dict[str, int]
) -> Iterator[tuple[Read, Formula, dict[str, int]]]:
    """Every leaf of a formula with what reaches it, and the sizes of the axes there."""
    for axis in sorted(axes_of(adjoint) - axes_of(formula)):
        adjoint = Total(axis, lengths[axis], adjoint)
    node = as_node(formula)
    match node:
        case Read():
            yield node, adjoint, lengths
        case Constant() | Largest():
            return
        case Map():
            for part, slope in _slopes(node):
                yield from _walk(part, adjoint if slope is None else adjoint * slope, lengths)
        case Series(parts=parts):
            for part in parts:
                yield from _walk(part, adjoint, lengths)
        case Masked(mask=mask, part=part):
            yield from _walk(part, Masked(mask, adjoint), lengths)
        case Total(axis=axis, size=size, part=part, mask=mask):
            inner = adjoint if mask is None else Masked(mask, adjoint)
            if axis in axes_of(part):
                yield from _walk(part, inner, {**lengths, axis: size})
            else:
                yield from _walk(part, float(size) * inner, lengths)
        case _:
            assert_never(node)


def _slopes(node: Map) -> Iterator[tuple[Formula, Formula | None]]:
    """Each part of an operator with the operator's derivative by it; None for 1."""
    first, second = node.parts[0], node.parts[-1]
    match node.name:
        case "add":
            yield first, None
            yield second, None
        case "sub":
            yield first, None
            yield second, setting(-1.0)
        case "neg":
            yield first, setting(-1.0)
        case "mul":
            yield first, second
            yield second, first
        case "div":
            yield first, 1.0 / second
            yield second, -(first / (second * second))
        case "pow":
            assert isinstance(second, Constant)
            exponent = float(second.values)
            yield first, exponent * first if exponent == 2 else exponent * first ** (exponent - 1)
        case "exp":
            yield first, node
        case "log":
            yield first, 1.0 / first
        case "sqrt":
            yield first, 1.0 / (2.0 * node)
        case "tanh":
            yield first, 1.0 - node * node
        case "erf":
            yield first, 2 / math.sqrt(math.pi) * (-(first * first)).apply("exp")
        case "sin":
            yield first, first.apply("cos")
        case "cos":
            yield first, -first.apply("sin")
        case "max":
            yield first, (first - second).apply("step")
            yield second, (second - first).apply("step")
        case "min":
            yield first, (second - first).apply("step")
            yield second, (first - second).apply("step")
        case "bfloat16":
            yield first, None
        case "step":
            return
        case _:
            assert_never(node.name)


def _onto_axes(
    leaf: Read,
    adjoint: Formula,
    axes: tuple[str, ...],
    lengths: Mapping[str, int],
    shape: tuple[int, ...],
) -> Formula:
    """What reaches a leaf, over the axes of its tensor instead of the formula's."""
    names: dict[str, str] = {}
    result = adjoint
    for step, axis, size in zip(leaf.index, axes, shape, strict=True):
        if isinstance(step, str):
            names[step] = axis
            continue
        result = Masked(_is_at(step, axis, size), result)
    for step in leaf.index:
        for summed in step.axes if isinstance(step, Places) else ():
            if summed not in names:
                names[summed] = summed
                length = lengths[summed]
                result = _total(summed, length, result)
    return rename_axes(result, names)


def _total(axis: str, size: int, part: Formula) -> Formula:
    """The sum over an axis; a mask outside becomes the mask of the sum."""
    if isinstance(part, Masked) and axis in axes_of(part.mask):
        return Total(axis, size, part.part, part.mask)
    return Total(axis, size, part)


def _is_at(step: Index, axis: str, size: int) -> Constant:
    """1 where the index is the place of the new axis."""
    places = torch.arange(size)
    match step:
        case int():
            return Constant((places == step).double(), (axis,), "mask")
        case Places(values=values, axes=axes):
            is_there = values[..., None] == places
            return Constant(is_there.double(), (*axes, axis), "mask")
        case str():
            raise ValueError("an axis is its own place")
        case _:
            assert_never(step)
