"""Expressions with their operands: what a receipt is recomputed from, by whoever shows it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Operator = Literal[
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "pow",
    "exp",
    "log",
    "sqrt",
    "tanh",
    "erf",
    "sin",
    "cos",
    "max",
    "min",
    "sum",
    "dot",
]


@dataclass(frozen=True, slots=True)
class Number:
    """An operand: a value, what it is called in the formula, and where in the trace it stands."""

    value: float
    name: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Vector:
    """A row of operands, for `sum`, `max` and `dot`."""

    values: tuple[float, ...]
    name: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator, applied. `sum`, `max`, `min` take one vector or several numbers; `dot` takes
    two vectors."""

    name: Operator
    arguments: tuple[Expression, ...]


Expression = Number | Vector | Apply

_UNARY: dict[Operator, Callable[[float], float]] = {
    "neg": lambda a: -a,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
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
    """What a tree comes to, in float64.

    Raises:
        ValueError: an operator was given what it does not take.
    """
    match expression:
        case Number():
            return expression.value
        case Vector():
            raise ValueError("a vector has no single value: it stands within sum, max, min or dot")
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
    """The tree as JSON can hold it.

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
