"""All JSON that we write is JSON: nothing in it is a bare NaN or Infinity."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path

import pytest

import pellucid
from pellucid.json_text import json_text

SOURCES = Path(pellucid.__file__).parent
NAN, INF = math.nan, math.inf


def refuse(name: str) -> float:
    raise ValueError(name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1.5, None, True, "x"]}, '{"a": [1.5, null, true, "x"]}'),
        (NAN, '"nan"'),
        ([INF, (-INF, {"deep": NAN})], '["inf", ["-inf", {"deep": "nan"}]]'),
        ({NAN: 1.0}, '{"nan": 1.0}'),
    ],
)
def test_a_number_that_is_not_finite_is_a_text(value: object, text: str) -> None:
    assert json_text(value) == text
    json.loads(text, parse_constant=refuse)


def test_the_text_reads_back_as_the_number() -> None:
    numbers = [float(name) for name in json.loads(json_text([NAN, INF, -INF]))]
    assert math.isnan(numbers[0])
    assert numbers[1:] == [INF, -INF]


def lets_nan_through(tree: ast.AST) -> list[int]:
    """The lines that write JSON and do not say `allow_nan=False`."""
    lines: list[int] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("json", "json.encoder"):
            lines.append(node.lineno)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in ("dump", "dumps", "JSONEncoder", "iterencode"):
            strict = any(
                word.arg == "allow_nan"
                and isinstance(word.value, ast.Constant)
                and word.value.value is False
                for word in node.keywords
            )
            module = node.func.value
            if not strict and isinstance(module, ast.Name) and "json" in module.id:
                lines.append(node.lineno)
    return lines


def test_nothing_writes_json_that_lets_nan_through() -> None:
    assert {
        str(file.relative_to(SOURCES)): lines
        for file in SOURCES.rglob("*.py")
        if (lines := lets_nan_through(ast.parse(file.read_text(encoding="utf-8"))))
    } == {}


@pytest.mark.parametrize(
    "line", ["json.dumps(x)", "json.dump(x, f, allow_nan=True)", "from json import dumps"]
)
def test_every_way_to_write_nan_is_seen(line: str) -> None:
    assert lets_nan_through(ast.parse(line))
