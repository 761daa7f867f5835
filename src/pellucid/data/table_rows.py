"""Rows with named columns, from the bytes of a table: JSON Lines, JSON, CSV, TSV or Parquet.

Rows come one after another, so a table may be larger than memory. A row that cannot be read is
refused by its number. Nothing is guessed: in a CSV or TSV the first line names the columns. Where
you call columns by number, the first line is data, "1" is its first value, and a file with any
other ending is read as lines with tabs between the values, in which quotes have no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from pellucid.data.decode_text import decoded, decoded_blocks
from pellucid.data.streams import extra
from pellucid.errors import TextError
from pellucid.reader import csv_rows, json_values, parse_json

#: A longer row is a file without line ends and not a document. It would fill the memory.
LONGEST_ROW = 64 * 2**20
#: The endings of tables that name their columns.
TABLES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one row by column; `where` is what messages call it."""

    file: str
    number: int
    where: str
    values: Mapping[str, object]


def read_table(
    name: str, ending: str, stream: BinaryIO, *, only: str | None = None, numbered: bool = False
) -> Iterator[Row]:
    """The rows of one table, in order.

    Args:
        name: what messages call the table.
        ending: says which kind of table it is, such as ".csv".
        stream: its bytes.
        only: the one column that you need, a path with dots or a name; other columns may be left
            out of the rows. None reads all columns.
        numbered: whether columns are called by number, so that the first line is data.

    Raises:
        TextError: the file is no table, is damaged, or has a row that cannot be read.
    """
    if ending in (".jsonl", ".ndjson"):
        return _json_lines(name, stream, only)
    if ending == ".json":
        return _json_list(name, stream, only)
    if ending == ".parquet":
        return _parquet(name, stream, only)
    if ending == ".csv":
        return _separated(name, stream, ",", only, numbered)
    if numbered:
        return _tab_lines(name, stream)
    if ending == ".tsv":
        return _separated(name, stream, "\t", only, numbered=False)
    raise TextError(
        f"{name} is not a table that names its columns ({', '.join(TABLES)}). If its lines are "
        "values with tabs between them, call the columns by number, such as --columns "
        "label=1,text=2. To learn from a text as a whole, choose another objective with --objective"
    )


def format_names(names: Iterable[object]) -> str:
    """Names for a message, the first dozen of them."""
    texts = [str(name) for name in names]
    suffix = f" and {len(texts) - 12} more" if len(texts) > 12 else ""
    return (", ".join(short(name) for name in texts[:12]) or "none") + suffix


def short(value: object) -> str:
    """A value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"


def no_column(name: str, field: str, columns: list[str]) -> TextError:
    """The refusal of a table that has no column `field`, or several."""
    fault = "more than one field" if field in columns else "no field"
    names = "has" if name.endswith(".parquet") else "its first line names"
    return TextError(
        f"{name}: {names} {fault} {field!r}; it has: {format_names(columns)}. Choose one "
        "with --field"
    )


def _json_lines(name: str, stream: BinaryIO, only: str | None) -> Iterator[Row]:
    """One object a line; a row's number is that of its line. Empty lines are no rows."""
    for number, line in _lines(name, stream):
        if line.strip():
            where = f"{name}, row {number}"
            value = parse_json(line, where, refusal=TextError, lenient=True)
            yield Row(name, number, where, _object(where, value, only))


def _json_list(name: str, stream: BinaryIO, only: str | None) -> Iterator[Row]:
    """A list of objects, or JSON Lines; a row's number is its place."""
    values = json_values(name, decoded_blocks(name, stream), LONGEST_ROW, refusal=TextError)
    for number, value in enumerate(values, 1):
        where = f"{name}, row {number}"
        yield Row(name, number, where, _object(where, value, only))


def _object(where: str, value: object, only: str | None) -> Mapping[str, object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value)
    columns = "named columns" if only is None else f"the field {only!r}"
    raise TextError(
        f"{where}: expected a JSON object with {columns}, was {short(value)}: write one object a "
        "row"
    )


def _separated(
    name: str, stream: BinaryIO, delimiter: str, only: str | None, numbered: bool
) -> Iterator[Row]:
    """CSV with any separator; rows are counted from the first line that is data."""
    lines = (line.replace("\r\n", "\n") for _, line in _lines(name, stream))  # inside quotes too
    columns: list[str] = []
    place: int | None = None
    number = 0
    for line, values in csv_rows(lines, name, delimiter, refusal=TextError):
        if not values:  # an empty line
            continue
        if not columns:
            columns = [str(i + 1) for i in range(len(values))] if numbered else values
            place = None if only is None else _place(name, only, columns)
            _refuse_repeated(name, columns if only is None else ())
            if not numbered:
                continue
        number += 1
        where = f"{name}, row {number} (line {line})"
        if len(values) != len(columns):
            raise TextError(
                f"{where}: has {len(values)} values where the first line names {len(columns)} "
                "fields: correct it, or put values that hold the separator in quotes"
            )
        if only is not None and place is not None:
            yield Row(name, number, where, {only: values[place]})
        else:
            yield Row(name, number, where, dict(zip(columns, values, strict=True)))


def _place(name: str, only: str, columns: list[str]) -> int:
    if columns.count(only) != 1:
        raise no_column(name, only, columns)
    return columns.index(only)


def _refuse_repeated(name: str, columns: Iterable[str]) -> None:
    counted = list(columns)
    repeated = sorted({column for column in counted if counted.count(column) > 1})
    if repeated:
        raise TextError(
            f"{name}: its first line names {format_names(repeated)} more than once: rename one, or "
            "call columns by number if that line is data"
        )


def _tab_lines(name: str, stream: BinaryIO) -> Iterator[Row]:
    """Lines of values with tabs between them, and nothing that names the columns."""
    n_columns = 0
    for number, line in _lines(name, stream):
        values = line.rstrip("\r\n").split("\t")
        if values == [""]:
            continue
        where = f"{name}, row {number}"
        n_columns = n_columns or len(values)
        if len(values) != n_columns:
            raise TextError(
                f"{where}: has {len(values)} values where the first line has {n_columns}, separated"
                " by tabs: correct it"
            )
        yield Row(name, number, where, {str(i): value for i, value in enumerate(values, 1)})


def _parquet(name: str, stream: BinaryIO, only: str | None) -> Iterator[Row]:
    """Rows of a Parquet file, a few hundred in memory at a time."""
    reader: Any = extra("pyarrow.parquet", "parquet", ".parquet")
    arrow: Any = extra("pyarrow", "parquet", ".parquet")
    number = 0
    try:
        file = reader.ParquetFile(stream)
        columns: list[str] = file.schema_arrow.names
        nested = only is not None and only not in columns and only.partition(".")[0] in columns
        if only is not None and not nested and columns.count(only) != 1:
            raise no_column(name, only, columns)
        selected = None if only is None else [only]
        for batch in file.iter_batches(batch_size=256, columns=selected):
            for values in cast("list[dict[str, object]]", batch.to_pylist()):
                number += 1
                if only is not None and not values:  # a path with dots that leads nowhere
                    raise no_column(name, only, columns)
                yield Row(name, number, f"{name}, row {number}", values)
    except UnicodeDecodeError as error:
        raise TextError(
            f"{name}: a text after row {number} is not UTF-8 ({error}): correct it where you make "
            "the file"
        ) from None
    except (arrow.ArrowException, OSError) as error:
        raise TextError(
            f"{name}, after row {number}: is not a whole Parquet file ({error}): fetch or make it "
            "again"
        ) from None


def _lines(name: str, stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """The lines of a file, counted from 1, with their ends; no byte-order mark."""
    number = 0
    while line := _line(name, stream, number):
        number += 1
        where = f"{name}, row {number}"
        if len(line) > LONGEST_ROW:
            raise TextError(
                f"{where}: is longer than {LONGEST_ROW:,} bytes: one row is one document; split it,"
                " or read a text as .txt"
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
