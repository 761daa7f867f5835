"""What every receipt is made with: operands with their addresses, a tolerance, a line of source.

The tolerance is stated relative to the scale of the sum: the largest numbers that are added on the
way to the result, because that is what rounding is relative to.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Apply, Expression, Number, Operator, Vector, evaluate
from pellucid.explain.trace_types import Trace
from pellucid.typed import to_list

#: Rounding of one operation, with room for the few that a number takes.
TOLERANCES = {"float64": 1e-9, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
#: Rows are written out whole up to so many features.
_LONGEST = 1024
#: The folder that the package lies in.
_ROOT = Path(__file__).resolve().parents[3]
#: Of a longer row this many terms are written out; the others stand as one number.
TERMS_SHOWN = 64


def receipt(
    trace: Trace,
    *,
    title: str,
    formula: str,
    expression: Expression,
    address: str,
    source: str,
    model: float | None = None,
    least: float = 1.0,
) -> Receipt:
    """The number at an address (or `model`, where it has none) beside its formula.

    Sums below `least` are judged as if they were that large. Gradients are small, and are judged
    by their own size: `least` is 0 for them.
    """
    model_value = float(trace[address]) if model is None else model
    scale = max(least, magnitude(expression)) / max(1.0, abs(model_value))
    return Receipt(
        title=title,
        formula=formula,
        expression=expression,
        model=model_value,
        tolerance=TOLERANCES.get(trace.dtype, 1e-5) * scale,
        address=address,
        source=source,
        dtype=trace.dtype,
    )


def source_line(code_object: Any, line: str) -> str:
    """The file of pellucid and the line in it where `thing` holds the text `line`.

    Raises:
        LookupError: it holds no such line.
    """
    code_object = inspect.unwrap(code_object)
    lines, first = inspect.getsourcelines(code_object)
    file = Path(inspect.getsourcefile(code_object) or "").resolve()
    for offset, text in enumerate(lines):
        if line in text:
            return f"{file.relative_to(_ROOT).as_posix()}:{first + offset}"
    raise LookupError(f"{file}: no line {line!r}")


def number(trace: Trace, address: str, name: str) -> Number:
    """The number at an address, as an operand."""
    return Number(float(trace[address]), name, address)


def constant(value: float, name: str = "") -> Number:
    """A number that stands nowhere in the trace."""
    return Number(float(value), name)


def vector(trace: Trace, address: str, name: str) -> Vector:
    """The row at an address, as operands."""
    return row(trace[address], name, address)


def row(values: Tensor, name: str, address: str = "") -> Vector:
    """A row that is at hand, as operands."""
    return Vector(tuple(to_list(values.detach().double().cpu())), name, address)


def apply(name: Operator, *arguments: Expression) -> Apply:
    """An operator, applied."""
    return Apply(name, arguments)


def added(first: Expression, *terms: Expression | None) -> Expression:
    """A sum of what is there."""
    for term in terms:
        first = first if term is None else apply("add", first, term)
    return first


def product(left: Vector, right: Vector) -> Expression:
    """left . right; of very long rows the largest products, the others as one number."""
    if len(left.values) <= _LONGEST:
        return apply("dot", left, right)
    products = [a * b for a, b in zip(left.values, right.values, strict=True)]
    order = sorted(range(len(products)), key=lambda place: -abs(products[place]))
    top_places, other_places = order[: _LONGEST // 2], order[_LONGEST // 2 :]
    largest = apply("dot", _select_terms(left, top_places), _select_terms(right, top_places))
    return apply(
        "add",
        largest,
        Number(math.fsum(products[i] for i in other_places), f"{len(other_places):,} more"),
    )


def summed(values: Vector) -> Expression:
    """The sum of a row; of a very long one as `product` has it."""
    if len(values.values) <= _LONGEST:
        return apply("sum", values)
    return product(values, Vector((1.0,) * len(values.values), "ones"))


def _select_terms(terms: Vector, places: Sequence[int]) -> Vector:
    name = f"{terms.name}, the {len(places)} terms that count most"
    return Vector(tuple(terms.values[place] for place in places), name)


def total(parts: Sequence[Expression], remaining: Sequence[float]) -> Expression:
    """The sum of parts that are written out, and of others that stand as one number."""
    if not remaining:
        return apply("sum", *parts)
    return apply("sum", *parts, Number(math.fsum(remaining), f"{len(remaining):,} more"))


def shares(
    own_term: Expression,
    values: Tensor,
    term: Callable[[int], Expression],
    extra: Expression | None = None,
) -> Expression:
    """exp(x - max) / sum exp(x - max), the largest terms first; `extra` is one term more.

    `term` makes the operand at a place of `values`; those of the smaller ones are not written out.
    """
    wide = values.detach().double().cpu()
    order = wide.argsort(descending=True, stable=True)
    numbers: list[float] = to_list(wide[order])
    top = max(numbers[0], -math.inf if extra is None else evaluate(extra))
    maximum = Number(top, "max")

    def raised(part: Expression) -> Expression:
        return apply("exp", apply("sub", part, maximum))

    terms_shown = [raised(term(int(place))) for place in order[:TERMS_SHOWN]]
    if extra is not None:
        terms_shown.append(raised(extra))
    remaining = [math.exp(x - top) for x in numbers[TERMS_SHOWN:]]
    return apply("div", raised(own_term), total(terms_shown, remaining))


def magnitude(expression: Expression) -> float:
    """How large the numbers are that a tree adds on its way: what its rounding is relative to."""
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
            return abs(evaluate(expression)) * max(
                1.0, magnitude(part) / abs(evaluate(part) or 1.0)
            )
        case Apply(_, parts):
            return max(abs(evaluate(expression)), *map(magnitude, parts))


def at(address: str, *index: int) -> str:
    """An address that points to a place: L2.H1.scores[7, 1]."""
    return f"{address}[{', '.join(map(str, index))}]"
