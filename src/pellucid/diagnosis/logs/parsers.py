"""Read the rows of a log: JSON, lines of JSON, a table, or lines of a console.

`columns` knows the meaning of names, and `console` reads lines of a console.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from pellucid.diagnosis.logs.columns import kind_of, only_loss, plain
from pellucid.diagnosis.logs.console import read_console
from pellucid.diagnosis.logs.lines import NUMBER, Row, join_records
from pellucid.errors import PellucidError
from pellucid.reader import csv_rows, parse_json, parse_json_table

_STEP_AND_LOSS = re.compile(rf"\s*\d+\s+(?:{NUMBER})\s*", re.IGNORECASE)
_ABSENT = {"", "none", "null", "-", "n/a", "na"}
#: A number as NumPy and torch print it, such as `np.float64(1.5)` and `tensor(1.5, device='cpu')`.
_WRAPPED = re.compile(rf"(?:\w+\.)?(?:float\d*|tensor)\(({NUMBER})[^()]*\)", re.IGNORECASE)
#: What Windows prints for a value that is not finite, such as `1.#INF`, `-1.#IND` and `1.#QNAN`.
_NOT_FINITE = re.compile(r"-?\b1\.?#(?P<kind>inf|\w+)\d*", re.IGNORECASE)
#: Quotation marks that a page put in place of straight ones.
_CURLY = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


def rows_in(text: str, name: str = "") -> list[Row]:
    """The rows of a text, which may be none. `name` is the name of its file."""
    stripped = _WRAPPED.sub(r"\1", text.lstrip("\ufeff \t\r\n").translate(_CURLY))
    stripped = _NOT_FINITE.sub(lambda m: "inf" if m["kind"].lower() == "inf" else "nan", stripped)
    if stripped[:1] in ("{", "["):
        try:
            return _read_json(parse_json(stripped, name, lenient=True))
        except PellucidError:
            pass
    lines = join_records([line for line in re.split(r"[\r\n]+", stripped) if line.strip()])
    return _read_json_lines(lines, name) or _read_table(lines, name) or read_console(lines)


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
    """The numbers of a record and of the records inside it; slashes join their names."""
    row: Row = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            row |= flat(cast("Mapping[str, Any]", value), f"{before}{key}/")
        elif (parsed := number(value)) is not None:
            row[f"{before}{key}"] = parsed
    return row


def flat_records(records: Sequence[Any]) -> list[Row]:
    """The numbers of each record in a list."""
    return [
        flat(cast("Mapping[str, Any]", record)) for record in records if isinstance(record, Mapping)
    ]


def _read_json(content: Any) -> list[Row]:
    """A list of records, or one record of lists."""
    if isinstance(content, list):
        return flat_records(cast("list[Any]", content))
    if not isinstance(content, Mapping):
        return []
    table = cast("Mapping[str, Any]", content)
    columns = {
        name: cast("list[Any]", column)
        for name, column in table.items()
        if isinstance(column, list) and column
    }
    if not columns:
        return [flat(table)]
    return [
        flat({name: column[i] for name, column in columns.items() if i < len(column)})
        for i in range(max(map(len, columns.values())))
    ]


def _read_json_lines(lines: Sequence[str], file: str) -> list[Row]:
    """One record a line; pellucid skips other lines, unless they are the majority."""
    rows: list[Row] = []
    for line in lines:
        with suppress(PellucidError):
            if line.lstrip().startswith("{"):
                rows.append(flat(parse_json_table(line, file, lenient=True)))
    return rows if 2 * len(rows) >= len(lines) else []


def _read_table(lines: Sequence[str], file: str) -> list[Row]:
    """A table with names in its first line; a table of one or two columns may have no names."""
    separators = [separator for separator in "\t;,|" if lines and separator in lines[0]]
    if separators == ["|"]:  # a table as Markdown has it
        lines = [line.strip().strip("|") for line in lines]
    if lines and all(_STEP_AND_LOSS.fullmatch(line) for line in lines):
        lines, separators = ["\t".join(line.split()) for line in lines], ["\t"]
    if lines and not separators and all(len(re.split(r"\s{2,}", x.strip())) > 2 for x in lines[:2]):
        lines, separators = [re.sub(r"\s{2,}", "\t", line.strip()) for line in lines], ["\t"]
    delimiter = separators[0] if separators else ","
    cells = [row for _, row in csv_rows(lines, file, delimiter, strict=False)]
    if not cells:
        return []
    names = [name.strip() for name in cells[0]]
    if all(number(name) is not None for name in names) and len(names) <= 2:
        usual_names = ["loss"] if len(names) == 1 else ["step", "loss"]
        return [_read_row(usual_names, row, delimiter) for row in cells]
    if {plain(name) for name in names} >= {"step", "value"}:
        # an export of TensorBoard's page: only the file's name has the tag
        names = [_tag_of_export(file) if plain(name) == "value" else name for name in names]
    if not any(kind_of(name) for name in names) and only_loss(names) is None:
        return []
    numbers_in_names = r"(?i)[:={]|\d\.\d|\bnan\b" + (r"|\s\d" if delimiter == "|" else "")
    if any(re.search(numbers_in_names, name) for name in names):
        return []  # a console's line with commas or bars in it
    return [_read_row(names, row, delimiter) for row in cells[1:]]


def _tag_of_export(file: str) -> str:
    """The name of the only column of an exported chart, from the name of its file."""
    plain_name = plain(file)
    tags = {"norm": "grad_norm", "learning_rate": "lr", "_lr": "lr", "val": "val_loss"}
    return next((name for part, name in tags.items() if part in plain_name), "loss")


def _read_row(names: Sequence[str], cells: Sequence[str], delimiter: str) -> Row:
    if delimiter == ";":
        cells = [cell.replace(",", ".") for cell in cells]
    numbers = {name: number(cell) for name, cell in zip(names, cells, strict=False)}
    return {name: value for name, value in numbers.items() if value is not None}
