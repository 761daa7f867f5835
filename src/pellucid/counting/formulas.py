"""Evaluate the formulas that are shown.

This room computes every number with the formula that it shows, so the two cannot differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

Symbols = Mapping[str, int]

_TOKEN = re.compile(r"\s*([A-Za-z_]+|\d+|[-+/^()])")


def evaluate(formula: str, symbols: Symbols) -> Fraction:
    """The value of `formula`: sums of products, powers, brackets; factors are side by side.

    Division applies to the one factor after it: "h (T + 1) / 2 d_k" is h d_k (T + 1) / 2.

    >>> evaluate("2 n_layers (2 d_model)", {"n_layers": 3, "d_model": 4})
    Fraction(48, 1)
    """
    tokens = _TOKEN.findall(formula)
    if "".join(tokens) != "".join(formula.split()):
        raise ValueError(f"{formula!r} has a character that no formula has")
    reader = _Reader(tokens, symbols)
    value = reader.sum()
    if reader.next_token is not None:
        raise ValueError(f"{formula!r} is not complete before {reader.next_token!r}")
    return value


def evaluate_int(formula: str, symbols: Symbols) -> int:
    """The value of `formula`, rounded down to a whole number."""
    return int(evaluate(formula, symbols))


def times(count: int, name: str, formula: str) -> str:
    """`formula` times `count`, which is called `name`; "0" stays "0"."""
    if formula == "0":
        return formula
    return f"{name if name else count} ({formula})"


def total(*formulas: str) -> str:
    """The sum of all formulas except "0"."""
    return " + ".join(formula for formula in formulas if formula != "0") or "0"


class _Reader:
    """Reads a sum from tokens, one after another."""

    def __init__(self, tokens: list[str], symbols: Symbols) -> None:
        self.tokens = tokens
        self.symbols = symbols

    @property
    def next_token(self) -> str | None:
        return self.tokens[0] if self.tokens else None

    def sum(self) -> Fraction:
        value = self._product()
        while self.next_token in ("+", "-"):
            sign = 1 if self.tokens.pop(0) == "+" else -1
            value += sign * self._product()
        return value

    def _product(self) -> Fraction:
        value = self._power()
        while self.next_token is not None and self.next_token not in "+-)":
            if self.next_token == "/":
                self.tokens.pop(0)
                value /= self._power()
            else:
                value *= self._power()
        return value

    def _power(self) -> Fraction:
        value = self._factor()
        if self.next_token == "^":
            self.tokens.pop(0)
            value **= int(self._factor())
        return value

    def _factor(self) -> Fraction:
        token = self.tokens.pop(0)
        if token == "(":
            value = self.sum()
            self.tokens.pop(0)  # its closing bracket
            return value
        return Fraction(int(token) if token.isdigit() else self.symbols[token])
