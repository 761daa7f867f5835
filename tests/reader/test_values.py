"""JSON, JSON Lines and TOML: the values, and the words of the refusals."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pellucid.errors import CheckpointError, PellucidError
from pellucid.reader import (
    json_lines,
    parse_json,
    parse_json_table,
    parse_toml,
    read_json_table,
    read_toml,
    short,
)

DEEP = 100_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"a": 1,\n "b" 2}',
            r"not valid JSON \(line 2, column 6: .*':'.*; found '2}'\)",
        ),
        ("", r"state: is not valid JSON \(column 1: .*; the text ends there"),
        ("nope", r"found 'nope'"),
        ("[" * DEEP, "too deep"),
        ('{"a":' * DEEP, "too deep"),
        ("[" + "9" * 301 + "]", "a number of 301 digits"),
        ("[" + "9" * 10_000 + "]", "a number of 10,000 digits"),
        ("[1e999]", "the number 1e999: too large"),
        ("[NaN]", "has NaN where a number"),
        ("[-Infinity]", "has -Infinity where a number"),
        (r'["\ud800"]', "half a character"),
    ],
)
def test_what_is_not_sound_json_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        parse_json(text, "state", refusal=CheckpointError)


def test_json_is_read_as_it_is() -> None:
    text = (
        '\ufeff{"a": [1, -2.5, null, true, "\\ud83d\\ude00"], "b": 1000000000000000019884624838656}'
    )
    assert parse_json(text, "file") == {"a": [1, -2.5, None, True, "😀"], "b": int(1e30)}
    assert math.isnan(parse_json("[NaN]", "log", lenient=True)[0])


@pytest.mark.parametrize("text", ["[]", "3", '"a"', "null"])
def test_what_is_no_object_is_refused_where_one_is_expected(text: str) -> None:
    with pytest.raises(PellucidError, match="manifest must be an object with names, was"):
        parse_json_table(text, "manifest")


def test_a_line_of_json_lines_is_refused_by_its_number() -> None:
    lines = json_lines('{"a": 1}\n\n{"a"', "log")
    assert next(lines) == {"a": 1}
    with pytest.raises(PellucidError, match=r"log, line 3: is not valid JSON \(column"):
        next(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "not valid TOML"),
        ("a = " + "[" * DEEP, "too deep|longer than"),
        ("a = " + "[\n" * DEEP, "too deep"),
        ("a = " + "9" * 5000, "cannot be read: .*4300 digits"),
        ("a." * 10_000 + "a = 1", "line 1: .*too deep"),
        ("b = 1\n[" + '"a" . ' * 10_000 + "a]", "line 2: .*too deep"),
        ("x = {" + "a." * 10_000 + "a = 1}", "too deep"),
        ("a = 1979-13-41", "TOML|cannot be read"),
        ("a = '" + "x" * 100_000 + "'", "line 1: is longer than"),
    ],
)
def test_what_is_not_sound_toml_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(PellucidError, match=message):
        parse_toml(text, "config")


def test_files_are_refused_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff")
    for read in (read_json_table, read_toml):
        with pytest.raises(PellucidError, match="a is not UTF-8: byte 0xff at offset 0"):
            read(tmp_path / "a")


def test_a_value_of_any_size_has_a_short_form() -> None:
    deep: list[object] = []
    for _ in range(DEEP):
        deep = [deep]
    for value in (deep, 10**50_000, -(10**50_000), "x" * 10**6, {"a": "b" * 100}, list(range(999))):
        assert len(short(value)) <= 100
    assert short(10**50_000) == "a whole number of about 50,000 digits"
    assert short("a") == "'a'"
    while deep:  # taken apart from outside
        deep = deep.pop()  # type: ignore[assignment]
