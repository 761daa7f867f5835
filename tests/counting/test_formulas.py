from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.counting.formulas import evaluate, times, total

SYMBOLS = {"h": 2, "d_k": 3, "d_v": 5, "d_model": 7, "T": 11, "w": 4}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("d_model", 7),
        ("h d_model (2 d_k + d_v) + h d_v d_model", 2 * 7 * 11 + 2 * 5 * 7),
        ("2 h (d_k + d_v) (T + 1) / 2", 2 * 2 * 8 * 12 // 2),
        ("d_model^2 + d_model", 56),
        ("(2 w - 1 - w (w - 1) / T)", Fraction(7) - Fraction(12, 11)),
        ("2 d_model^2 / T", Fraction(98, 11)),
        ("7 - 2 - 1", 4),
        ("T 2 h", 44),
    ],
)
def test_formula_is_read_as_it_is_written(formula: str, value: Fraction) -> None:
    assert evaluate(formula, SYMBOLS) == value


@given(a=st.integers(0, 99), b=st.integers(0, 99), c=st.integers(1, 99))
def test_products_bind_closer_than_sums(a: int, b: int, c: int) -> None:
    assert evaluate("a + b c", {"a": a, "b": b, "c": c}) == a + b * c
    assert evaluate("(a + b) c", {"a": a, "b": b, "c": c}) == (a + b) * c
    assert evaluate("a b / c", {"a": a, "b": b, "c": c}) == Fraction(a * b, c)


def test_what_is_no_formula_is_refused() -> None:
    with pytest.raises(ValueError, match="a character that no formula has"):
        evaluate("2 * h", SYMBOLS)
    with pytest.raises(ValueError, match="is not complete before"):
        evaluate("h) d_k", SYMBOLS)
    with pytest.raises(KeyError):
        evaluate("2 unheard_of", SYMBOLS)


def test_nothing_is_left_out_of_sums_and_products() -> None:
    assert total("0", "d_k", "0", "d_v") == "d_k + d_v"
    assert total("0", "0") == "0"
    assert times(3, "n_layers", "d_k") == "n_layers (d_k)"
    assert times(3, "", "d_k") == "3 (d_k)"
    assert times(3, "n_layers", "0") == "0"
