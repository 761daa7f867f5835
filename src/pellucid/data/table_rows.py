"""Rows with named columns, from the bytes of a table: JSON Lines, JSON, CSV, TSV, Parquet
or Arrow.

Rows come one after another, so a table may be larger than memory. If a row cannot be read, the
message names its number. pellucid does not guess: in a CSV or TSV, the first line names the
columns. If you choose columns by number, the first line is data, "1" is its first value, and a file
with another ending is read as lines with tabs between the values, in which quotes have no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from pellucid.data.arrow_rows import not_utf8, read_arrow
from pellucid.data.decode_text import decode_blocks, decode_content
from pellucid.errors import TextError
from pellucid.extras import import_extra
from pellucid.reader import csv_rows, json_values, parse_json

#: A longer row is probably a file without line ends. It would fill the memory.
LONGEST_ROW = 64 * 2**20
#: The endings of tables that name their columns.
TABLES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".arrow")


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one row by column; `location` is its name in messages.

    Attributes:
        file: of the table.
        number: of the row, from 1.
        values: by column.
    """

    file: str
    number: int
    location: str
    values: Mapping[str, object]


def read_table(
    name: str, ending: str, stream: BinaryIO, *, field: str | None = None, numbered: bool = False
) -> Iterator[Row]:
    """The rows of one table, in order.

    Args:
        name: the name of the table in messages.
        ending: the kind of table, such as ".csv".
        stream: its bytes.
        field: the only column that you need, a name or a path with dots; rows may lack the other
            columns. None reads all columns.
        numbered: whether columns have numbers, so that the first line is data.

    Raises:
        TextError: the file is no table, is damaged, or has a row that cannot be read.
    """
    if ending in (".jsonl", ".ndjson"):
        return _json_lines(name, stream, field)
    if ending == ".json":
        return _json_list(name, stream, field)
    if ending == ".parquet":
        return _parquet(name, stream, field)
    if ending == ".arrow":
        return _arrow(name, stream, field)
    if ending == ".csv":
        return _separated(name, stream, ",", field, numbered)
    if numbered:
        return _tab_lines(name, stream)
    if ending == ".tsv":
        return _separated(name, stream, "\t", field, numbered=False)
    raise TextError(
        f"{name} is not a table that names its columns ({', '.join(TABLES)}). If its lines are "
        "values with tabs between them, choose columns by number, such as --columns "
        "label=1,text=2. To train on a text as a whole, choose another objective with --objective"
    )


def format_names(names: Iterable[object]) -> str:
    """The first dozen of names, for a message."""
    texts = [str(name) for name in names]
    suffix = f" and {len(texts) - 12} more" if len(texts) > 12 else ""
    return (", ".join(short(name) for name in texts[:12]) or "none") + suffix


def short(value: object) -> str:
    """A value for a message, cut if it is long."""
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"


def missing_column_error(name: str, field: str, columns: list[str]) -> TextError:
    """The error for a table that has no column `field`, or several.

    Args:
        name: the name of the table.
        field: the column.
        columns: the columns of the table.
    """
    fault = "more than one field" if field in columns else "no field"
    names = "has" if name.endswith((".parquet", ".arrow")) else "its first line names"
    return TextError(
        f"{name}: {names} {fault} {field!r}; it has: {format_names(columns)}. Choose one "
        "with --field"
    )


def _json_lines(name: str, stream: BinaryIO, field: str | None) -> Iterator[Row]:
    """One object in each line; the number of a row is its line. Empty lines are no rows."""
    for number, line in _lines(name, stream):
        if line.strip():
            location = f"{name}, row {number}"
            value = parse_json(line, location, refusal=TextError, lenient=True)
            yield Row(name, number, location, _check_object(location, value, field))


def _json_list(name: str, stream: BinaryIO, field: str | None) -> Iterator[Row]:
    """A list of objects, or JSON Lines; a row's number is its place."""
    values = json_values(name, decode_blocks(name, stream), LONGEST_ROW, refusal=TextError)
    for number, value in enumerate(values, 1):
        location = f"{name}, row {number}"
        yield Row(name, number, location, _check_object(location, value, field))


def _check_object(location: str, value: object, field: str | None) -> Mapping[str, object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value)
    columns = "named columns" if field is None else f"the field {field!r}"
    raise TextError(
        f"{location}: expected a JSON object with {columns}, was {short(value)}: write one object "
        "in each row"
    )


def _separated(
    name: str, stream: BinaryIO, delimiter: str, field: str | None, numbered: bool
) -> Iterator[Row]:
    """CSV with any separator; row 1 is the first line of data."""
    lines = (line.replace("\r\n", "\n") for _, line in _lines(name, stream))  # inside quotes too
    columns: list[str] = []
    place: int | None = None
    number = 0
    for line, values in csv_rows(lines, name, delimiter, refusal=TextError):
        if not values:  # an empty line
            continue
        if not columns:
            columns = [str(i + 1) for i in range(len(values))] if numbered else values
            place = None if field is None else _find_column(name, field, columns)
            _refuse_repeated(name, columns if field is None else ())
            if not numbered:
                continue
        number += 1
        location = f"{name}, row {number} (line {line})"
        if len(values) != len(columns):
            raise TextError(
                f"{location}: has {len(values)} values, but the first line names {len(columns)} "
                "fields: correct it, or put values that hold the separator in quotes"
            )
        if field is not None and place is not None:
            yield Row(name, number, location, {field: values[place]})
        else:
            yield Row(name, number, location, dict(zip(columns, values, strict=True)))


def _find_column(name: str, field: str, columns: list[str]) -> int:
    if columns.count(field) != 1:
        raise missing_column_error(name, field, columns)
    return columns.index(field)


def _refuse_repeated(name: str, columns: Iterable[str]) -> None:
    names = list(columns)
    repeated = sorted({column for column in names if names.count(column) > 1})
    if repeated:
        raise TextError(
            f"{name}: its first line names {format_names(repeated)} more than once: rename one, or "
            "choose columns by number if that line is data"
        )


def _tab_lines(name: str, stream: BinaryIO) -> Iterator[Row]:
    """Lines of values with tabs between them, without names of columns."""
    n_columns = 0
    for number, line in _lines(name, stream):
        values = line.rstrip("\r\n").split("\t")
        if values == [""]:
            continue
        location = f"{name}, row {number}"
        n_columns = n_columns or len(values)
        if len(values) != n_columns:
            raise TextError(
                f"{location}: has {len(values)} values, but the first line has {n_columns}, with "
                "tabs between them: correct it"
            )
        yield Row(name, number, location, {str(i): value for i, value in enumerate(values, 1)})


def _parquet(name: str, stream: BinaryIO, field: str | None) -> Iterator[Row]:
    """Rows of a Parquet file, a few hundred in memory at a time."""
    reader: Any = import_extra("parquet", "pyarrow.parquet")
    arrow: Any = import_extra("parquet", "pyarrow")
    number = 0
    try:
        file = reader.ParquetFile(stream)
        columns: list[str] = file.schema_arrow.names
        nested = field is not None and field not in columns and field.partition(".")[0] in columns
        if field is not None and not nested and columns.count(field) != 1:
            raise missing_column_error(name, field, columns)
        selected = None if field is None else [field]
        for batch in file.iter_batches(batch_size=256, columns=selected):
            for values in cast("list[dict[str, object]]", batch.to_pylist()):
                number += 1
                if field is not None and not values:  # a path with dots that does not exist
                    raise missing_column_error(name, field, columns)
                yield Row(name, number, f"{name}, row {number}", values)
    except UnicodeDecodeError as error:
        raise not_utf8(name, number, error) from None
    except (arrow.ArrowException, OSError) as error:
        raise TextError(
            f"{name}, after row {number}: is not a whole Parquet file ({error}): fetch or make it "
            "again"
        ) from None


def _arrow(name: str, stream: BinaryIO, field: str | None) -> Iterator[Row]:
    for number, values in read_arrow(name, stream):
        if field is not None and field not in values and field.partition(".")[0] not in values:
            raise missing_column_error(name, field, list(values))
        yield Row(name, number, f"{name}, row {number}", values)


def _lines(name: str, stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """The lines of a file, counted from 1, with their ends; no byte-order mark."""
    number = 0
    while line := _line(name, stream, number):
        number += 1
        location = f"{name}, row {number}"
        if len(line) > LONGEST_ROW:
            raise TextError(
                f"{location}: is longer than {LONGEST_ROW:,} bytes, but a row is one document: "
                "split it, or read a text as .txt"
            )
        text = decode_content(location, line, file=name)
        yield number, text.removeprefix("\ufeff") if number == 1 else text


def _line(name: str, stream: BinaryIO, number: int) -> bytes:
    try:
        return stream.readline(LONGEST_ROW + 1)
    except EOFError:
        raise TextError(
            f"{name} is incomplete after row {number}: the archive ends before its text; fetch or "
            "make it again"
        ) from None
