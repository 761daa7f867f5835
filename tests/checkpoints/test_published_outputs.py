"""Every family computes what `transformers` computed, for configurations as they are published."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pellucid.reader import read_text
from support.conformance import TOLERANCE
from support.published_outputs import CASES, FILE, NUMBERS, configuration, ours, theirs

ROWS: dict[str, dict[str, Any]] = json.loads(read_text(FILE))


def test_the_file_has_every_family_of_which_no_tensor_is_computed() -> None:
    assert ROWS.keys() == {f"{name} {number}" for name in CASES for number in NUMBERS}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", CASES)
def test_the_numbers_are_those_of_the_file(name: str, number: int) -> None:
    row = ROWS[f"{name} {number}"]
    largest = max(1.0, *map(abs, row["outputs"]))
    outputs = ours(name, configuration(name, number), row["shapes"])
    assert outputs == pytest.approx(row["outputs"], abs=TOLERANCE * largest, rel=0)


@pytest.mark.parity
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", CASES)
def test_the_file_is_what_the_library_computes(name: str) -> None:
    shapes, outputs = theirs(name, configuration(name, NUMBERS[0]))
    row = ROWS[f"{name} {NUMBERS[0]}"]
    assert {key: list(shape) for key, shape in shapes.items()} == row["shapes"]
    largest = max(1.0, *map(abs, row["outputs"]))
    assert outputs == pytest.approx(row["outputs"], abs=TOLERANCE * largest, rel=0)
