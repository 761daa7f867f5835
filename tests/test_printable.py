"""Signs that an output cannot encode."""

from __future__ import annotations

import io
import sys

import pytest

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Number
from pellucid.printable import ERRORS, printable


def test_what_cannot_be_encoded_is_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "é × → 漢 ✓".encode("ascii", ERRORS) == b"? x -> ? ok"
    assert "é × →".encode("cp1252", ERRORS) == "é × ->".encode("cp1252")
    assert "é × →".encode("utf-8", ERRORS).decode() == "é × →"
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert printable("a · b") == "a * b"


def test_receipt_can_be_printed_where_only_ascii_is(monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = Receipt(
        title="score",
        formula="q · k × scale",
        expression=Number(value=2.0),
        model=2.0,
        tolerance=1e-5,
        address="L0.H0.scores[1, 0]",
        source="model/scores.py:1",
    )
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert str(receipt).splitlines() == [
        "score",
        "q * k x scale = 2",
        "the model has 2: it agrees   L0.H0.scores[1, 0]   model/scores.py:1",
    ]
