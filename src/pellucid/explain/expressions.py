"""Expressions with their operands: a display recomputes a receipt from its tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

Unary = Literal["neg", "exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "step", "bfloat16"]
Binary = Literal["add", "sub", "mul", "div", "pow"]
Reduction = Literal["sum", "max", "min", "dot"]
Operator = Unary | Binary | Reduction
#: A longer dot product keeps its largest terms; one number holds the sum of the others.
_LONGEST = 1024


class Arithmetic:
    """The operators of trees: `(q @ k * scale).tanh()` is an expression with its operands."""

    __slots__ = ()

    def __add__(self, other: Arithmetic | float) -> Apply:
        return apply("add", self, other)

    def __radd__(self, other: float) -> Apply:
        return apply("add", other, self)

    def __sub__(self, other: Arithmetic | float) -> Apply:
        return apply("sub", self, other)

    def __rsub__(self, other: float) -> Apply:
        return apply("sub", other, self)

    def __mul__(self, other: Arithmetic | float) -> Apply:
        return apply("mul", self, other)

    def __rmul__(self, other: float) -> Apply:
        return apply("mul", other, self)

    def __truediv__(self, other: Arithmetic | float) -> Apply:
        return apply("div", self, other)

    def __rtruediv__(self, other: float) -> Apply:
        return apply("div", other, self)

    def __pow__(self, other: Arithmetic | float) -> Apply:
        return apply("pow", self, other)

    def __neg__(self) -> Apply:
        return apply("neg", self)

    def exp(self) -> Apply:
        """The exponential."""
        return apply("exp", self)

    def log(self) -> Apply:
        """The natural logarithm."""
        return apply("log", self)

    def sqrt(self) -> Apply:
        """The square root."""
        return apply("sqrt", self)

    def tanh(self) -> Apply:
        """The hyperbolic tangent."""
        return apply("tanh", self)


@dataclass(frozen=True, slots=True)
class Number(Arithmetic):
    """An operand: a value, its name in the formula, and its address in the trace."""

    value: float
    name: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Vector(Arithmetic):
    """A row of operands, for `sum`, `max`, `min` and `dot`."""

    values: tuple[float, ...]
    name: str = ""
    address: str = ""

    def __matmul__(self, other: Vector) -> Apply:
        """The dot product; of very long rows the largest products, and the others as one number."""
        if len(self.values) <= _LONGEST:
            return apply("dot", self, other)
        products = [a * b for a, b in zip(self.values, other.values, strict=True)]
        order = sorted(range(len(products)), key=lambda place: -abs(products[place]))
        top, others = order[: _LONGEST // 2], order[_LONGEST // 2 :]
        remainder = math.fsum(products[place] for place in others)
        largest = apply("dot", self._select(top), other._select(top))
        return largest + Number(remainder, f"{len(others):,} more")

    def sum(self) -> Apply:
        """The sum of the row; of a very long one as `@` has it."""
        if len(self.values) <= _LONGEST:
            return apply("sum", self)
        return self @ Vector((1.0,) * len(self.values), "ones")

    def _select(self, places: Sequence[int]) -> Vector:
        name = f"{self.name}, the {len(places)} terms that count most"
        return Vector(tuple(self.values[place] for place in places), name)


@dataclass(frozen=True, slots=True)
class Apply(Arithmetic):
    """An operator, applied.

    `sum`, `max`, `min` take one vector or several numbers; `dot` takes two vectors.
    """

    name: Operator
    arguments: tuple[Expression, ...]


Expression = Number | Vector | Apply


def apply(name: Operator, *arguments: Arithmetic | float) -> Apply:
    """An operator, applied to trees; a plain number becomes an operand without a name."""
    trees = (Number(float(x)) if isinstance(x, int | float) else x for x in arguments)
    return Apply(name, cast("tuple[Expression, ...]", tuple(trees)))


def constant(value: float, name: str = "") -> Number:
    """An operand that has no address in the trace."""
    return Number(float(value), name)


def _round_to_bfloat16(x: float) -> float:
    """The nearest number with 8 binary digits; of two that are as near, the even one."""
    if not x or not math.isfinite(x):
        return x
    mantissa, exponent = math.frexp(x)
    return math.ldexp(round(mantissa * 256), exponent - 8)


_UNARY: dict[Operator, Callable[[float], float]] = {
    "neg": lambda a: -a,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
    "step": lambda a: float(a > 0),
    "bfloat16": _round_to_bfloat16,
}
_BINARY: dict[Operator, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": math.pow,
}
_REDUCTIONS: dict[Operator, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "max": max,
    "min": min,
}


def evaluate(expression: Expression) -> float:
    """The value of a tree, in float64.

    Raises:
        ValueError: an operator has arguments that it does not take.
    """
    match expression:
        case Number():
            return expression.value
        case Vector():
            raise ValueError("a vector has no single value: put it within sum, max, min or dot")
        case Apply("dot", (Vector(lhs), Vector(rhs))):
            return math.fsum(a * b for a, b in zip(lhs, rhs, strict=True))
        case Apply("sum" | "max" | "min" as name, (Vector(row),)):
            return _REDUCTIONS[name](row)
        case Apply("sum" | "max" | "min" as name, parts):
            return _REDUCTIONS[name]([evaluate(part) for part in parts])
        case Apply(name, (part,)) if name in _UNARY:
            return _UNARY[name](evaluate(part))
        case Apply(name, (lhs, rhs)) if name in _BINARY:
            return _BINARY[name](evaluate(lhs), evaluate(rhs))
        case _:
            raise ValueError(f"{expression.name} does not take these arguments")


def to_plain(expression: Expression) -> dict[str, Any]:
    """The tree as plain values for JSON.

    A number is `{"value", "name", "at"}`, a vector `{"values", "name", "at"}`, an operator
    `{"op", "of"}`; empty names and addresses are left out.
    """
    match expression:
        case Apply(name, parts):
            return {"op": name, "of": [to_plain(part) for part in parts]}
        case Number():
            node: dict[str, Any] = {"value": expression.value}
        case Vector():
            node = {"values": list(expression.values)}
    if expression.name:
        node["name"] = expression.name
    if expression.address:
        node["at"] = expression.address
    return node
