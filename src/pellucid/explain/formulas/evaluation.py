"""All numbers of a formula at once, in float64, and how large the numbers are that it adds.

Rounding is relative to the numbers that are added on the way to a result: `Numbers.size` is their
sum, and receipts allow differences relative to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, assert_never, cast

import torch
from torch import Tensor

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

#: Reads the tensor at an address.
ReadTensor = Callable[[str], Tensor]


class Numbers(NamedTuple):
    """Values over axes, and the size of the numbers that were added for each."""

    value: Tensor
    size: Tensor
    axes: tuple[str, ...]

    @property
    def by_axes(self) -> tuple[Tensor, tuple[str, ...]]:
        """The values and their axes."""
        return self.value, self.axes


class Evaluation:
    """Evaluates formulas of one trace; `fixed` axes have one place only, and stay as axes of 1."""

    def __init__(self, read: ReadTensor, fixed: Mapping[str, int] | None = None) -> None:
        self._read, self._fixed = read, dict(fixed or {})
        self._results: dict[int, tuple[Formula, Numbers]] = {}

    def __call__(self, formula: Formula) -> Numbers:
        """The numbers of a formula; each part of it is computed once."""
        result = self._results.get(id(formula))
        if result is None:
            result = formula, self._compute(formula)
            self._results[id(formula)] = result
        return result[1]

    def on_axes(self, formula: Formula, axes: Sequence[str], shape: Sequence[int]) -> Numbers:
        """The numbers in the shape of an address."""
        value, size = (
            align(tensor, self(formula).axes, axes).expand(torch.Size(shape))
            for tensor in (self(formula).value, self(formula).size)
        )
        return Numbers(value, size, tuple(axes))

    def _compute(self, formula: Formula) -> Numbers:
        node = as_node(formula)
        match node:
            case Read():
                value, axes = self.read(node)
                return Numbers(value, value.abs(), axes)
            case Constant(values=values, axes=axes):
                value = values.double()
                for place, axis in enumerate(axes):
                    if axis in self._fixed:
                        value = value.narrow(place, self._fixed[axis], 1)
                return Numbers(value, value.abs(), axes)
            case Map():
                return self._map(node)
            case Series(parts=parts):
                return self._add(parts)
            case Masked(mask=mask, part=part):
                numbers, visible = self(part), self._mask(mask)
                value, axes = _combine(torch.mul, numbers.by_axes, visible)
                return Numbers(value.nan_to_num(), align_to(numbers.size, numbers.axes, axes), axes)
            case Total():
                return self._total(node)
            case Largest(axis=axis, part=part, mask=mask, candidate=candidate):
                value, axes = self._masked(part, mask, -math.inf)
                value, axes = value.amax(axes.index(axis)), _drop(axes, axis)
                if candidate is not None:
                    value, axes = _combine(torch.maximum, (value, axes), self(candidate).by_axes)
                return Numbers(value, value.abs(), axes)
            case _:
                assert_never(node)

    def read(self, leaf: Read) -> tuple[Tensor, tuple[str, ...]]:
        """The numbers at an address, in float64, and their axes."""
        tensor = self._read(leaf.address)
        if all(isinstance(step, str | int) for step in leaf.index):
            axes: list[str] = []
            for step in leaf.index:
                place = len(axes)
                if isinstance(step, int):
                    tensor = tensor.select(place, step)
                    continue
                axis = cast("str", step)
                if axis in self._fixed:
                    tensor = tensor.narrow(place, self._fixed[axis], 1)
                axes.append(axis)
            return tensor.detach().cpu().double(), tuple(axes)
        names = tuple(dict.fromkeys(a for step in leaf.index for a in _names(step)))
        indices = tuple(
            self._index(step, names, size)
            for step, size in zip(leaf.index, tensor.shape, strict=True)
        )
        return tensor.detach()[indices].cpu().double(), names

    def _index(self, step: Index, names: tuple[str, ...], size: int) -> Tensor | int:
        match step:
            case int():
                return step
            case str():
                first, count = (self._fixed[step], 1) if step in self._fixed else (0, size)
                return align(torch.arange(first, first + count), (step,), names)
            case Places(values=values, axes=axes):
                for place, axis in enumerate(axes):
                    if axis in self._fixed:
                        values = values.narrow(place, self._fixed[axis], 1)
                return align(values, axes, names)
            case _:
                assert_never(step)

    def _mask(self, mask: Mask) -> tuple[Tensor, tuple[str, ...]]:
        numbers = self(mask)
        return (numbers.value != 0).double(), numbers.axes

    def _masked(
        self, part: Formula, mask: Mask | None, fill: float
    ) -> tuple[Tensor, tuple[str, ...]]:
        numbers = self(part)
        if mask is None:
            return numbers.value, numbers.axes
        return _combine(
            lambda visible, value: torch.where(visible != 0, value, fill),
            self._mask(mask),
            numbers.by_axes,
        )

    def _total(self, node: Total) -> Numbers:
        axis, factors = node.axis, factors_of(node.part)
        masks = [] if node.mask is None else [self._mask(node.mask)]
        parts = [self(factor) for factor in factors]
        is_product = len(parts) + len(masks) > 1 and any(axis in axes_of(f) for f in factors)
        # what a mask hides may be infinite, and infinity times 0 is not 0
        if is_product and not (masks and not all(map(_is_finite, parts))):
            keep = tuple(dict.fromkeys(a for part in parts for a in part.axes if a != axis))
            keep += tuple(a for _, axes in masks for a in axes if a != axis and a not in keep)
            value = _contract([*((p.value, p.axes) for p in parts), *masks], keep)
            size = _contract([*((p.size, p.axes) for p in parts), *masks], keep)
            return Numbers(value, size, keep)
        numbers = self(node.part)
        if axis not in numbers.axes and not masks:
            return Numbers(numbers.value * node.size, numbers.size * node.size, numbers.axes)
        value, axes = self._masked(node.part, node.mask, 0.0)
        size = align_to(numbers.size, numbers.axes, axes)
        if masks:
            size = torch.where(align_to(*masks[0], axes) != 0, size, 0.0)
        place = axes.index(axis)
        return Numbers(value.sum(place), size.expand_as(value).sum(place), _drop(axes, axis))

    def _add(self, parts: Sequence[Formula]) -> Numbers:
        numbers = [self(part) for part in parts]
        axes = tuple(dict.fromkeys(axis for part in numbers for axis in part.axes))
        value = sum((align(part.value, part.axes, axes) for part in numbers), torch.zeros(()))
        size = sum((align(part.size, part.axes, axes) for part in numbers), torch.zeros(()))
        return Numbers(value.double(), size.double(), axes)

    def _map(self, node: Map) -> Numbers:
        parts = [self(part) for part in node.parts]
        axes = tuple(dict.fromkeys(axis for part in parts for axis in part.axes))
        values = [align(part.value, part.axes, axes) for part in parts]
        sizes = [align(part.size, part.axes, axes) for part in parts]
        value = _OPERATORS[node.name](*values)
        are_exact = all(isinstance(part, Read | Constant) for part in node.parts)
        return Numbers(value, _size(node.name, value, values, sizes, exact=are_exact), axes)


def _size(
    name: str, value: Tensor, values: list[Tensor], sizes: list[Tensor], *, exact: bool
) -> Tensor:
    """The size of the numbers that are added on the way to an operator's result."""
    match name:
        case "add" | "sub":
            return value.abs() if exact else sizes[0] + sizes[1]  # of exact operands: rounded once
        case "max" | "min":
            return sizes[0] + sizes[1]
        case "neg":
            return sizes[0]
        case "mul":
            a, b = (x.abs() for x in values)
            return sizes[0] * b + a * sizes[1] - a * b
        case "div":
            a, b = (x.abs() for x in values)
            return sizes[0] / b + a / b * (sizes[1] / b - 1)
        case "exp":
            return value * sizes[0].clamp_min(1.0)
        case "sqrt" | "pow" | "log":
            base = values[0].abs()
            relative = sizes[0] / torch.where(base == 0, 1.0, base)
            return value.abs() * relative.clamp_min(1.0)
        case _:
            return torch.maximum(value.abs(), sizes[0])


def _is_finite(numbers: Numbers) -> bool:
    return bool(numbers.value.isfinite().all())


def _step(x: Tensor) -> Tensor:
    return (x > 0).double()


def _round_to_bfloat16(x: Tensor) -> Tensor:
    return x.bfloat16().double()


_OPERATORS: dict[str, Callable[..., Tensor]] = {
    "neg": torch.neg,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "step": _step,
    "bfloat16": _round_to_bfloat16,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "max": torch.maximum,
    "min": torch.minimum,
}


def align(tensor: Tensor, axes: Sequence[str], target: Sequence[str]) -> Tensor:
    """The tensor with an axis for each of the target's; those that it lacks have size 1."""
    order = [axis for axis in target if axis in axes]
    tensor = tensor.permute([axes.index(axis) for axis in order])
    for place, axis in enumerate(target):
        if axis not in axes:
            tensor = tensor.unsqueeze(place)
    return tensor


def align_to(tensor: Tensor, axes: Sequence[str], target: Sequence[str]) -> Tensor:
    """`align`, if all axes are there already in that order."""
    return tensor if tuple(axes) == tuple(target) else align(tensor, axes, target)


def _combine(
    operator: Callable[[Tensor, Tensor], Tensor],
    first: tuple[Tensor, tuple[str, ...]],
    second: tuple[Tensor, tuple[str, ...]],
) -> tuple[Tensor, tuple[str, ...]]:
    axes = tuple(dict.fromkeys((*first[1], *second[1])))
    return operator(align_to(*first, axes), align_to(*second, axes)), axes


def _contract(parts: list[tuple[Tensor, tuple[str, ...]]], keep: tuple[str, ...]) -> Tensor:
    letters = {a: chr(97 + n) for n, a in enumerate(dict.fromkeys(a for _, x in parts for a in x))}
    sides = ",".join("".join(letters[axis] for axis in axes) for _, axes in parts)
    equation = f"{sides}->{''.join(letters[axis] for axis in keep)}"
    return cast("Any", torch).einsum(equation, *(tensor for tensor, _ in parts))


def _names(step: Index) -> tuple[str, ...]:
    return step.axes if isinstance(step, Places) else (step,) if isinstance(step, str) else ()


def _drop(axes: tuple[str, ...], axis: str) -> tuple[str, ...]:
    return tuple(name for name in axes if name != axis)
