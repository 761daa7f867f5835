"""Rows of a log, whatever they were written as: JSON, lines of JSON, a table, lines of a console.

Names mean nothing here, except in the lines of a console, which are searched for usual names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pellucid.diagnosis.logs.columns import kind_of, only_loss, plain
from pellucid.errors import PellucidError
from pellucid.reader import csv_rows, parse_json, parse_json_table

#: One row: what it says, by the names it says it under.
Row = dict[str, float]

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)(?![a-z])"
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ABSENT = {"", "none", "null", "-", "n/a", "na"}


def rows_in(text: str, name: str = "") -> list[Row]:
    """The rows of a text; empty where nothing in it is a row. `name` is its file's."""
    stripped = text.lstrip("\ufeff \t\r\n")
    if stripped[:1] in ("{", "["):
        try:
            return _of_json(parse_json(stripped, name, lenient=True))
        except PellucidError:
            pass
    lines = [line for line in re.split(r"[\r\n]+", stripped) if line.strip()]
    return _of_json_lines(lines, name) or _of_table(lines, name) or _of_console(lines)


def number(value: object) -> float | None:
    """A number, or a text that is one; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str) or value.strip().lower() in _ABSENT:
        return None
    try:
        return float(value.strip().strip("'\""))
    except ValueError:
        return None


def flat(record: Mapping[str, Any], before: str = "") -> Row:
    """The numbers of a record; what lies within another is named with slashes."""
    row: Row = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            row |= flat(cast("Mapping[str, Any]", value), f"{before}{key}/")
        else:
            read = number(value)
            if read is not None:
                row[f"{before}{key}"] = read
    return row


def _of_json(read: Any) -> list[Row]:
    """A list of records, or one record of lists."""
    if isinstance(read, list):
        return [
            flat(cast("Mapping[str, Any]", record))
            for record in cast("list[Any]", read)
            if isinstance(record, Mapping)
        ]
    if not isinstance(read, Mapping):
        return []
    table = cast("Mapping[str, Any]", read)
    columns = {
        name: cast("list[Any]", column) for name, column in table.items() if _is_list(column)
    }
    if not columns:
        return [flat(table)]
    rows: list[Row] = []
    for i in range(max(map(len, columns.values()))):
        rows.append(flat({name: column[i] for name, column in columns.items() if i < len(column)}))
    return rows


def _is_list(value: object) -> bool:
    return isinstance(value, list) and bool(cast("list[Any]", value))


def _of_json_lines(lines: Sequence[str], file: str) -> list[Row]:
    """One record a line; a line that was cut off, or says something else, is passed over."""
    rows: list[Row] = []
    broken = 0
    for line in lines:
        if not line.lstrip().startswith("{"):
            broken += 1
            continue
        try:
            read = parse_json_table(line, file, lenient=True)
        except PellucidError:
            broken += 1
            continue
        rows.append(flat(read))
    return rows if rows and broken <= len(rows) else []


def _of_table(lines: Sequence[str], file: str) -> list[Row]:
    """A table with a first line of names; one or two columns may have none."""
    delimiter = (
        next((separator for separator in ("\t", ";", ",") if separator in lines[0]), ",")
        if lines
        else ","
    )
    cells = [row for _, row in csv_rows(lines, file, delimiter, strict=False)]
    if not cells:
        return []
    names = [name.strip() for name in cells[0]]
    if all(number(name) is not None for name in names) and len(names) <= 2:
        named = ["loss"] if len(names) == 1 else ["step", "loss"]
        return [_row(named, row, delimiter) for row in cells]
    if {plain(name) for name in names} >= {"step", "value"}:
        # what TensorBoard's page exports: the tag is in the file's name alone
        names = [_tag_in(file) if plain(name) == "value" else name for name in names]
    if not any(kind_of(name) for name in names) and only_loss(names) is None:
        return []
    if any(re.search(r"[:={]|\d\.\d", name) for name in names):
        return []  # a console's line with commas in it
    return [_row(names, row, delimiter) for row in cells[1:]]


def _tag_in(file: str) -> str:
    """What the one column of an exported chart holds, by the name of its file."""
    plain_name = plain(file)
    tags = {"norm": "grad_norm", "learning_rate": "lr", "_lr": "lr", "val": "val_loss"}
    return next((name for part, name in tags.items() if part in plain_name), "loss")


def _row(names: Sequence[str], cells: Sequence[str], delimiter: str) -> Row:
    if delimiter == ";":
        cells = [cell.replace(",", ".") for cell in cells]
    read = {name: number(cell) for name, cell in zip(names, cells, strict=False)}
    return {name: value for name, value in read.items() if value is not None}


# ---- lines of a console

_NAMED_NUMBER = re.compile(
    r"(?<![\w/])(?:(?P<before>[A-Za-z]+)[ _/-])?"
    r"(?P<name>train[ _/]loss|training[ _/]loss|eval[ _/]loss|val(?:id(?:ation)?)?[ _/]loss|"
    r"lm[ _]loss|loss|global[ _]grad[ _]norm|grad(?:ient)?[ _-]norm|gnorm|norm|learning[ _]rate|"
    rf"lr)\b(?: value)?['\"]?\s*[:=]?\s*\[?['\"]?(?P<value>{_NUMBER})",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"(?<![\w/])['\"]?(?:global[ _]?)?(?:iter(?:ation)?s?|steps?|updates?|num_updates)['\"]?"
    r"\s*[:=#]?\s*\[?['\"]?(?P<step>\d+)",
    re.IGNORECASE,
)
_EPOCH = re.compile(rf"['\"]?\bepoch['\"]?\s*[:=]?\s*\[?['\"]?(?P<epoch>{_NUMBER})", re.IGNORECASE)
_BAR = re.compile(r"(?:^\s*\d+\||\|\s*)(?P<step>\d+)(?:/\d+ \[|\|\s*Loss)")
_HELD_OUT = ("val", "valid", "validation", "eval", "test", "dev")
_TRAINED = ("train", "training", "lm")
#: Words before "loss" that make it another one.
_UNWANTED = (
    *("aux", "auxiliary", "balancing", "z", "moe", "router", "mtp", "best", "min", "max"),
    *("weight", "param", "params", "parameter", "layer", "rms"),
)


def _of_console(lines: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    bar: float | None = None
    for line in lines:
        line = _COLOURS.sub("", line)
        bars = list(_BAR.finditer(line))
        if bars:
            bar = float(bars[-1]["step"])
        row = _read_line(line)
        if not row:
            continue
        counted = _COUNTED.search(line)
        epoch = _EPOCH.search(line)
        if counted is not None:
            row["step"] = float(counted["step"])
        elif bar is not None:
            row["step"] = bar
        if epoch is not None:
            row["epoch"] = float(epoch["epoch"])
        rows.append(row)
    counted_rows = sum("step" in row for row in rows)
    if counted_rows < len(rows) / 2:  # a few chance numbers count nothing
        for row in rows:
            row.pop("step", None)
    return rows


def _read_line(line: str) -> Row:
    row: Row = {}
    if "train_runtime" in line:
        return row  # the sum of a whole training, and no update
    for match in _NAMED_NUMBER.finditer(line):
        word_before = (match["before"] or "").lower()
        name = plain(match["name"]).replace("/", "_")
        if word_before in _UNWANTED:
            continue
        if name.endswith("loss") and (
            word_before in _HELD_OUT or "validation loss" in line.lower()
        ):
            name = "val_loss"
        elif name == "loss" and word_before in _TRAINED:
            name = "train_loss"
        row.setdefault(name, float(match["value"]))
    return row
