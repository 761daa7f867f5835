"""A receipt's tree as a line of text, the operands put in.

Comes in: an expression. Goes out: text; of long sums the first terms, and how many more there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.explain.expressions import Apply, Expression, Number, Vector

#: How many terms of a sum are written.
_TERMS = 2
_SIGNS = {"add": " + ", "sub": " - ", "mul": " × ", "div": " / "}
_BINDS = {"add": 1, "sub": 1, "sum": 1, "dot": 1, "mul": 2, "div": 2, "neg": 3, "pow": 4}


def spelled(expression: Expression) -> str:
    """The tree with its numbers."""
    return _spelled(expression)[0]


def short(x: float) -> str:
    """A number in four digits, without an exponent where it can be."""
    return f"{x:.4g}"


def _spelled(expression: Expression) -> tuple[str, int]:
    """The text, and how tightly it binds: what binds less needs brackets within what binds more."""
    match expression:
        case Number(number, name):
            # what sums up others is named, so that nobody takes it for one term
            text = f"{short(number)} ({name})" if name.endswith(" more") else short(number)
            return text, 5 if number >= 0 else 3
        case Vector():
            return _listed([short(number) for number in expression.values], ", "), 5
        case Apply("dot", (Vector(left), Vector(right))):
            terms = [f"{short(a)}·{short(b)}" for a, b in zip(left, right, strict=True)]
            return _listed(terms, " + "), 1
        case Apply("sum" | "max" | "min" as name, (Vector(row),)):
            return _many(name, [short(number) for number in row])
        case Apply("sum" | "max" | "min" as name, parts):
            return _many(name, [_within(part, 2) for part in parts])
        case Apply("add" | "sub" | "mul" | "div" as name, (left, right)):
            binds = _BINDS[name]
            tighter = binds + (name in ("sub", "div"))
            second = _within(right, tighter)
            second = f"({second})" if second.startswith("-") else second
            return f"{_within(left, binds)}{_SIGNS[name]}{second}", binds
        case Apply("pow", (left, right)):
            return f"{_within(left, 5)}^{_within(right, 5)}", 4
        case Apply("neg", (part,)):
            return f"-{_within(part, 3)}", 3
        case Apply(name, parts):
            inner = ", ".join(_spelled(part)[0] for part in parts)
            return f"{'√' if name == 'sqrt' else name}({inner})", 5


def _many(name: str, terms: Sequence[str]) -> tuple[str, int]:
    if name == "sum":
        return _listed(terms, " + "), 1 if len(terms) > 1 else 3
    return f"{name}({_listed(terms, ', ')})", 5


def _within(expression: Expression, binds: int) -> str:
    text, own = _spelled(expression)
    return text if own >= binds else f"({text})"


def _listed(terms: Sequence[str], between: str) -> str:
    if len(terms) <= _TERMS + 1:
        return between.join(terms)
    last = [terms[-1]] if terms[-1].endswith(" more)") else []
    rest = len(terms) - _TERMS - len(last)
    return between.join([*terms[:_TERMS], f"… {rest} more", *last])
