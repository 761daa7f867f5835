"""Formulas and the names of operands are notation, which is the same in every language."""

from __future__ import annotations

import re

import pytest

from support.models import build
from support.nightly import sampled
from support.traced import MODELS, operands, traced

#: The only words that may precede another word.
FUNCTIONS = {"log", "exp", "max", "min", "cos", "sin", "tanh", "erf"}
#: Two words with nothing but a space between them.
WORDS = re.compile(r"(?<![\w.])([^\W\d_]{2,}) +([^\W\d_]{2,})")


def prose(text: str) -> bool:
    return any(not FUNCTIONS.intersection(pair) for pair in WORDS.findall(text))


def test_prose_is_recognised() -> None:
    assert prose("query, the part of this head")
    assert prose("written by 3")
    assert not prose("exp(s - max) / Σ exp(s - max)")
    assert not prose("-log p")


@pytest.mark.parametrize("name", sampled(MODELS, every=40))
def test_no_formula_and_no_operand_is_a_sentence(name: str) -> None:
    trace = traced(build(MODELS[name]))
    kinds: set[str] = set()
    for check in trace.receipts(backward=True):
        kind = re.sub(r"\d+", "0", check.address)
        if check.reason is not None or kind in kinds:
            continue
        kinds.add(kind)
        receipt = trace.receipt(check.address, *[0] * trace[check.address].ndim)
        names = [operand.name for operand in operands(receipt.expression)]
        for text in (receipt.formula, *names):
            assert not prose(text), (check.address, text)
    assert len(kinds) > 20
