"""A receipt as a line of text: its operands put in, in as many digits as its result needs.

Of long sums the first terms are written, and the others as one number that says how many they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Apply, Expression, Number, Vector, evaluate

#: How many terms of a sum are written.
_TERMS = 2
#: Digits of a result, at most, and of operands, at least and at most: 17 are all of a float64.
_RESULT_DIGITS, _MIN_DIGITS, _MAX_DIGITS = 6, 4, 17
_SIGNS = {"add": " + ", "sub": " - ", "mul": " × ", "div": " / "}
_BINDS = {"add": 1, "sub": 1, "sum": 1, "dot": 1, "mul": 2, "div": 2, "neg": 3, "pow": 4}
_MORE_SUFFIX = " more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A receipt in text: its operands, their result, and the model's own number.

    `digits` is how many an operand needs, `places` after which power of ten the result ends.
    """

    operands: str
    result: str
    model: str
    digits: int
    places: int


def format_receipt(receipt: Receipt) -> Line:
    """The fewest digits at which the operands, as they are shown, come to the result as shown."""
    exact, tree = receipt.recomputed, receipt.expression
    places = _places(exact, receipt.allowed)
    result = _format_to_place(exact, places)
    digits = next(
        (
            digits
            for digits in range(_MIN_DIGITS, _MAX_DIGITS)
            if _evaluates_to(round_operands(tree, digits), result, places)
            and _evaluates_to(_abbreviate(tree, digits), result, places)
        ),
        _MAX_DIGITS,
    )
    return Line(
        operands=format_expression(tree, digits),
        result=result,
        model=_format_to_place(receipt.model, places),
        digits=digits,
        places=places,
    )


def format_expression(expression: Expression, digits: int) -> str:
    """The tree with its numbers, each in so many digits."""
    return _format_node(_abbreviate(expression, digits), digits)[0]


def round_operands(expression: Expression, digits: int) -> Expression:
    """The tree with every operand rounded to so many digits."""

    def round_value(x: float) -> float:
        return float(f"{x:.{digits}g}")

    match expression:
        case Number():
            return replace(expression, value=round_value(expression.value))
        case Vector():
            return replace(expression, values=tuple(map(round_value, expression.values)))
        case Apply(name, parts):
            return Apply(name, tuple(round_operands(part, digits) for part in parts))


def _places(x: float, allowed: float) -> int:
    """The power of ten of the last digit shown: of six digits, none much finer than the allowed."""
    if not math.isfinite(x):
        return 0
    finest = math.floor(math.log10(allowed)) - 2 if allowed else -400
    return max(math.floor(math.log10(abs(x))) - _RESULT_DIGITS + 1, finest) if x else finest


def _format_to_place(x: float, places: int) -> str:
    """A number that ends at a power of ten."""
    if not math.isfinite(x) or not x:
        return f"{x:g}"
    digits = math.floor(math.log10(abs(x))) - places + 1
    return f"{x:.{digits}g}" if digits > 0 else "0"


def _evaluates_to(tree: Expression, result: str, places: int) -> bool:
    try:
        return _format_to_place(evaluate(tree), places) == result
    except (ValueError, ZeroDivisionError, OverflowError):
        return False  # a rounded operand left the formula's range


def _abbreviate(expression: Expression, digits: int) -> Expression:
    """The tree as it is written: operands rounded, the later terms of long sums as one number."""
    return round_operands(_shortened(expression), digits)


def _shortened(expression: Expression) -> Expression:
    match expression:
        case Apply("dot", (Vector(lhs), Vector(rhs))) if len(lhs) > _TERMS + 1:
            first = Apply("dot", (Vector(lhs[:_TERMS]), Vector(rhs[:_TERMS])))
            remaining_terms = zip(lhs[_TERMS:], rhs[_TERMS:], strict=True)
            remainder = math.fsum(a * b for a, b in remaining_terms)
            return Apply("sum", (first, _build_remainder(remainder, len(lhs) - _TERMS)))
        case Apply("sum" | "max" | "min" as name, (Vector(row),)):
            return _shortened(Apply(name, tuple(map(Number, row))))
        case Apply("sum" | "max" | "min" as name, parts) if len(parts) > _TERMS + 1:
            remaining_terms = parts[_TERMS:]
            remainder = evaluate(Apply(name, remaining_terms))
            first = tuple(map(_shortened, parts[:_TERMS]))
            return Apply(
                name, (*first, _build_remainder(remainder, sum(map(_count, remaining_terms))))
            )
        case Apply(name, parts):
            return Apply(name, tuple(map(_shortened, parts)))
        case _:
            return expression


def _build_remainder(x: float, count: int) -> Number:
    return Number(x, f"{count:,}{_MORE_SUFFIX}")


def _count(part: Expression) -> int:
    """The number of terms in a part."""
    if isinstance(part, Number) and part.name.endswith(_MORE_SUFFIX):
        return int(part.name.removesuffix(_MORE_SUFFIX).replace(",", ""))
    return 1


def _format_node(expression: Expression, digits: int) -> tuple[str, int]:
    """The text, and how tightly it binds: what binds less needs brackets within what binds more."""

    def format_part(part: Expression, binds: int) -> str:
        text, precedence = _format_node(part, digits)
        return text if precedence >= binds else f"({text})"

    match expression:
        case Number(number, name):
            # the name of a remainder shows that it is no single term
            digits_text = f"{number:.{digits}g}"
            text = f"{digits_text} ({name})" if name.endswith(_MORE_SUFFIX) else digits_text
            return text, 3 if digits_text.startswith("-") else 5
        case Vector():
            raise ValueError("a vector is written within sum, max, min or dot")
        case Apply("dot", (Vector(lhs), Vector(rhs))):
            pairs = zip(lhs, rhs, strict=True)
            terms = [f"{a:.{digits}g}·{b:.{digits}g}" for a, b in pairs]
            return " + ".join(terms), 1
        case Apply("sum", parts):
            terms = [format_part(part, 1) for part in parts]
            return " + ".join(terms), 1
        case Apply("add" | "sub" | "mul" | "div" as name, (lhs, rhs)):
            binds = _BINDS[name]
            second = format_part(rhs, binds + (name in ("sub", "div")))
            second = f"({second})" if second.startswith("-") else second
            return f"{format_part(lhs, binds)}{_SIGNS[name]}{second}", binds
        case Apply("pow", (lhs, rhs)):
            return f"{format_part(lhs, 5)}^{format_part(rhs, 5)}", 4
        case Apply("neg", (part,)):
            return f"-{format_part(part, 3)}", 3
        case Apply(name, parts):
            return _format_call(name, [format_part(part, 0) for part in parts]), 5


def _format_call(name: str, inner: Sequence[str]) -> str:
    return f"{'√' if name == 'sqrt' else name}({', '.join(inner)})"
