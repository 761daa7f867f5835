"""Tables as whole rows: JSON Lines, JSON, CSV, TSV and Parquet, one row after another.

Comes in: a stream of bytes and its name. Goes out: rows, each with its number, what errors call it,
and its values. It does not know folders, archives, or which of its fields somebody wants.

What cannot be read is refused with the number of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, cast

from pellucid.data.decode_text import decoded, decoded_blocks
from pellucid.data.streams import extra
from pellucid.errors import TextError
from pellucid.reader import csv_rows, json_values, parse_json

#: A longer row is no document but a file without line ends, and would fill the memory.
LONGEST_ROW = 64 * 2**20


class WholeRow(NamedTuple):
    """A row: its number, what an error calls it, and what it holds."""

    number: int
    where: str
    value: object


class Line(NamedTuple):
    """The values of a line of a separated table; number 0 is the first line, which names them."""

    number: int
    where: str
    values: list[str]


def json_line_rows(name: str, stream: BinaryIO) -> Iterator[WholeRow]:
    """One JSON value a line; a row's number is that of its line. Empty lines are no rows."""
    for number, line in lines_of(name, stream):
        where = f"{name}, row {number}"
        if not line.strip():
            continue
        yield WholeRow(number, where, parse_json(line, where, refusal=TextError, lenient=True))


def json_list_rows(name: str, stream: BinaryIO) -> Iterator[WholeRow]:
    """A list of JSON values, or JSON Lines; a row's number is its place."""
    values = json_values(name, decoded_blocks(name, stream), LONGEST_ROW, refusal=TextError)
    for number, row in enumerate(values, 1):
        yield WholeRow(number, f"{name}, row {number}", row)


def separated_lines(name: str, stream: BinaryIO, delimiter: str) -> Iterator[Line]:
    """CSV with any separator: first the line that names the fields, then rows of as many values."""
    lines = (_with_end(line) for _, line in lines_of(name, stream))
    header: list[str] | None = None
    number = 0
    for line, row in csv_rows(lines, name, delimiter, refusal=TextError):
        if not row:  # an empty line
            continue
        if header is None:
            header = row
            yield Line(0, name, row)
            continue
        number += 1
        where = f"{name}, row {number} (line {line})"
        if len(row) != len(header):
            raise TextError(
                f"{where}: has {len(row)} values where the first line names {len(header)} "
                "fields: mend it, or put values that hold the separator in quotes"
            )
        yield Line(number, where, row)


def parquet_rows(
    name: str, stream: BinaryIO, choose: Callable[[list[str]], list[str] | None]
) -> Iterator[WholeRow]:
    """Rows of a Parquet file, a few hundred in memory at a time.

    Args:
        choose: of its columns, those that are to be read; None for all. May refuse them.
    """
    reader: Any = extra("pyarrow.parquet", "parquet", ".parquet")
    arrow: Any = extra("pyarrow", "parquet", ".parquet")
    number = 0
    try:
        file = reader.ParquetFile(stream)
        columns = choose(file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=256, columns=columns):
            for value in cast("list[object]", batch.to_pylist()):
                number += 1
                yield WholeRow(number, f"{name}, row {number}", value)
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


def lines_of(name: str, stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """The lines of a file, counted from 1, with their ends; no byte-order mark.

    Raises:
        TextError: a line that is not UTF-8, or longer than a document may be.
    """
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
