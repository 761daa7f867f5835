"""Tables of texts: JSON Lines, JSON, CSV, TSV and Parquet, one document per row.

Comes in: a stream of bytes, its name, and the field that holds the text. Goes out: the text of one
row after another. It does not know folders or archives.

What cannot be read is refused with the number of the row; a row whose text is empty or null is
given as "", for the caller to count.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from pellucid.errors import TextError
from pellucid.text.json_values import json_values
from pellucid.text.plain import decoded, refuse_nul
from pellucid.text.streams import extra

#: A longer row is no document but a file without line ends, and would fill the memory.
LONGEST_ROW = 64 * 2**20

Row = tuple[int, str]
Rows = Iterator[Row]
Read = Callable[[str, BinaryIO, str], Rows]


def json_lines(name: str, stream: BinaryIO, field: str) -> Rows:
    """One JSON object a line; a row's number is that of its line. Empty lines are no rows."""
    for number, line in _lines(name, stream):
        where = f"{name}, row {number}"
        if not line.strip():
            continue
        try:
            row: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TextError(f"{where}: is not valid JSON ({error}): mend or remove it") from None
        yield number, _text(where, field, _field_of(where, row, field))


def json_rows(name: str, stream: BinaryIO, field: str) -> Rows:
    """A list of JSON objects, or JSON Lines; a row's number is its place."""
    for number, row in enumerate(json_values(name, stream, LONGEST_ROW), 1):
        where = f"{name}, row {number}"
        yield number, _text(where, field, _field_of(where, row, field))


def comma_separated(name: str, stream: BinaryIO, field: str) -> Rows:
    """CSV with the fields' names in its first line; rows are counted after that."""
    return _separated(name, stream, field, ",")


def tab_separated(name: str, stream: BinaryIO, field: str) -> Rows:
    """The same with tabs."""
    return _separated(name, stream, field, "\t")


def parquet(name: str, stream: BinaryIO, field: str) -> Rows:
    """One column of a Parquet file, a few hundred rows in memory at a time."""
    reader: Any = extra("pyarrow.parquet", "parquet", ".parquet")
    arrow: Any = extra("pyarrow", "parquet", ".parquet")
    number = 0
    try:
        file = reader.ParquetFile(stream)
        columns: list[str] = file.schema_arrow.names
        nested = field not in columns and field.partition(".")[0] in columns
        if not nested and columns.count(field) != 1:
            raise _no_column(name, field, columns)
        for batch in file.iter_batches(batch_size=256, columns=[field]):
            if not batch.num_columns:
                raise _no_column(name, field, columns)
            for value in batch.to_pylist() if nested else batch.column(0).to_pylist():
                number += 1
                where = f"{name}, row {number}"
                yield number, _text(where, field, _nested(value, field) if nested else value)
    except UnicodeDecodeError as error:
        raise TextError(
            f"{name}: a text after row {number} is not UTF-8 ({error}): mend it where the file is "
            "made"
        ) from None
    except (arrow.ArrowException, OSError) as error:
        raise TextError(
            f"{name}, after row {number}: is not a whole Parquet file ({error}): fetch or make it "
            "again"
        ) from None


#: How files of each ending are read.
TABLES: dict[str, Read] = {
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".json": json_rows,
    ".csv": comma_separated,
    ".tsv": tab_separated,
    ".parquet": parquet,
}


def _field_of(where: str, row: object, field: str) -> object:
    """What a JSON object holds in `field`: by that very key, or else by a path with dots."""
    if not isinstance(row, dict):
        raise TextError(f"{where}: expected a JSON object with the field {field!r}")
    fields = cast("dict[str, object]", row)
    if field in fields:
        return fields[field]
    value: Any = fields
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            raise TextError(
                f"{where}: has no field {field!r}; it has: {_listed(_paths(fields))}. Choose one "
                "of them with --field"
            )
        value = cast("dict[str, Any]", value)[key]
    return cast("object", value)


def _paths(fields: dict[str, object], before: str = "") -> Iterator[str]:
    """The fields that could have been chosen, those of objects in objects with dots."""
    for key, value in fields.items():
        if isinstance(value, dict) and value:
            yield from _paths(cast("dict[str, object]", value), f"{before}{key}.")
        else:
            yield before + key


def _nested(value: object, field: str) -> object:
    """What lies at a path with dots; nothing where a part of the way is null."""
    for key in field.split("."):
        value = cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None
    return value


def _separated(name: str, stream: BinaryIO, field: str, delimiter: str) -> Rows:
    lines = (_with_end(line) for _, line in _lines(name, stream))
    csv.field_size_limit(LONGEST_ROW)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    number = 0
    try:
        for row in reader:
            if not row:  # an empty line
                continue
            if header is None:
                header = row
                if header.count(field) != 1:
                    raise _no_column(name, field, header)
                continue
            number += 1
            where = f"{name}, row {number} (line {reader.line_num})"
            if len(row) != len(header):
                raise TextError(
                    f"{where}: has {len(row)} values where the first line names {len(header)} "
                    "fields: mend it, or put values that hold the separator in quotes"
                )
            yield number, _text(where, field, row[header.index(field)])
    except csv.Error as error:
        raise TextError(
            f"{name}, row {number + 1} (line {reader.line_num}): cannot be read ({error}): mend it"
        ) from None


def _lines(name: str, stream: BinaryIO) -> Iterator[tuple[int, str]]:
    number = 0
    while line := _line(name, stream, number):
        number += 1
        where = f"{name}, row {number}"
        if len(line) > LONGEST_ROW:
            raise TextError(
                f"{where}: is longer than {LONGEST_ROW:,} bytes: one row is one document; break it "
                "up, or read a text as .txt"
            )
        text = decoded(where, line, file=name)
        yield number, text.removeprefix("\ufeff") if number == 1 else text


def _line(name: str, stream: BinaryIO, number: int) -> bytes:
    try:
        return stream.readline(LONGEST_ROW + 1)
    except EOFError:
        raise TextError(
            f"{name} is cut short after row {number}: the archive ends before its text does; fetch "
            "or make it again"
        ) from None


def _with_end(line: str) -> str:
    """With the line end that the csv module wants inside quotes."""
    return line.replace("\r\n", "\n")


def _text(where: str, field: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TextError(
            f"{where}: the field {field!r} is not a text but {_short(value)}: choose another with "
            "--field"
        )
    refuse_nul(where, value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            f"{where}: the text has half of a surrogate pair at character {error.start}, which "
            "is no character: mend it"
        ) from None
    return value.replace("\r\n", "\n").replace("\r", "\n")


def _no_column(name: str, field: str, columns: list[str]) -> TextError:
    what = "more than one field" if field in columns else "no field"
    return TextError(
        f"{name}: its first line names {what} {field!r}; it has: {_listed(columns)}. Choose one of "
        "them with --field"
        if not name.endswith(".parquet")
        else f"{name}: has {what} {field!r}; it has: {_listed(columns)}. Choose one with --field"
    )


def _listed(names: Any) -> str:
    shown = [str(name) for name in names]
    rest = f" and {len(shown) - 12} more" if len(shown) > 12 else ""
    return (", ".join(_short(name) for name in shown[:12]) or "none") + rest


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
