"""The builder of receipts: it reads operands by address, sets the tolerance and finds the source.

The tolerance is relative to the largest numbers that are added on the way to the result, because
rounding is relative to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.equations.equation import AUTOGRAD, TOLERANCES, Source, source_line
from pellucid.explain.expressions import Apply, Expression, Number, Vector, apply, evaluate
from pellucid.explain.formulas.trees import TERMS_SHOWN as TERMS_SHOWN
from pellucid.explain.formulas.trees import cell as cell
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list


@dataclass(frozen=True, slots=True)
class ReceiptBuilder:
    """Makes the receipts of one trace."""

    trace: Trace

    def number(self, name: str, address: str, *index: int) -> Number:
        """The number at an address as an operand; `name` is its name in the formula."""
        place = cell(address, *index)
        return Number(float(self.trace[place]), name, place)

    def vector(self, name: str, address: str, *index: int) -> Vector:
        """The row at an address as operands."""
        place = cell(address, *index)
        return row(self.trace[place], name, place)

    def receipt(
        self,
        address: str,
        *,
        title: str,
        formula: str,
        expression: Expression,
        source: Source,
        model: float | None = None,
        least: float = 1.0,
    ) -> Receipt:
        """Compare the number at an address with its formula.

        Args:
            address: of the number.
            title: what the number is.
            formula: the formula with the names of its operands.
            expression: the formula with its operands.
            source: the line of pellucid that computes the number.
            model: the model's number, if it has no address of its own.
            least: smaller sums are judged as if they were that large; 0 for gradients.
        """
        model = float(self.trace[address]) if model is None else model
        scale = max(least, magnitude(expression)) / max(1.0, abs(model))
        return Receipt(
            title=title,
            formula=formula,
            expression=expression,
            model=model,
            tolerance=TOLERANCES.get(self.trace.dtype, 1e-5) * scale,
            address=address,
            source=source_line(*source),
            dtype=self.trace.dtype,
        )

    def gradient(
        self,
        address: str,
        *,
        title: str,
        formula: str,
        expression: Expression,
        source: Source = AUTOGRAD,
        model: float | None = None,
    ) -> Receipt:
        """The receipt of a gradient or of a step, which is judged by its own size."""
        return self.receipt(
            address,
            title=title,
            formula=formula,
            expression=expression,
            source=source,
            model=model,
            least=0.0,
        )


def row(values: Tensor, name: str, address: str = "") -> Vector:
    """A row of numbers as operands."""
    return Vector(tuple(to_list(values.detach().double().cpu())), name, address)


def total(parts: Sequence[Expression], remaining: Sequence[float] = ()) -> Expression:
    """The sum of the parts, and of remaining terms as one number."""
    if not remaining:
        return apply("sum", *parts)
    return apply("sum", *parts, Number(math.fsum(remaining), f"{len(remaining):,} more"))


def magnitude(expression: Expression) -> float:
    """The size of the numbers that a tree adds on its way; its rounding is relative to it."""
    match expression:
        case Number():
            return abs(expression.value)
        case Vector():
            return math.fsum(map(abs, expression.values))
        case Apply("dot", (Vector(lhs), Vector(rhs))):
            return math.fsum(abs(a * b) for a, b in zip(lhs, rhs, strict=True))
        case Apply("add" | "sub", (Number(), Number())):
            return abs(evaluate(expression))  # of exact operands: rounded once
        case Apply("add" | "sub" | "sum" | "neg" | "max" | "min", parts):
            return math.fsum(map(magnitude, parts))
        case Apply("mul", (lhs, rhs)):
            a, b = abs(evaluate(lhs)), abs(evaluate(rhs))
            return magnitude(lhs) * b + a * magnitude(rhs) - a * b
        case Apply("div", (lhs, rhs)):
            a, b = abs(evaluate(lhs)), abs(evaluate(rhs))
            return magnitude(lhs) / b + a / b * (magnitude(rhs) / b - 1)
        case Apply("exp", (part,)):
            return evaluate(expression) * max(1.0, magnitude(part))
        case Apply("sqrt" | "pow" | "log", (part, *_)):
            relative = magnitude(part) / abs(evaluate(part) or 1.0)
            return abs(evaluate(expression)) * max(1.0, relative)
        case Apply(_, parts):
            return max(abs(evaluate(expression)), *map(magnitude, parts))
