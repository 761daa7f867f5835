"""Rows with named columns from files, folders and standard input.

Comes in: paths. Goes out: rows, each with its file, its number and its values by column. It does
not know what a column means.

Files are read as a stream; whoever needs all rows at once keeps them. The ending says the kind:
.jsonl, .ndjson, .json, .csv, .tsv and .parquet, and these compressed as .gz or .zst; standard input
is JSON Lines. A .zip is read where it holds one such file, besides those whose names begin with "_"
or ".". Tables without a line that names the columns are never guessed: where the columns are called
by numbers, the first line is data, and "1" is its first value. Only so are files with other endings
read: lines with tabs between values, in which quotes are signs as any other (so in .tsv too).
"""

from __future__ import annotations

import zipfile
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from pellucid.data.sources import tables_in
from pellucid.data.streams import COMPRESSED, PIPED, Piped, inner_name, opened
from pellucid.data.table_rows import (
    WholeRow,
    json_line_rows,
    json_list_rows,
    lines_of,
    parquet_rows,
    separated_lines,
)
from pellucid.data.table_texts import listed, short
from pellucid.errors import TextError
from pellucid.reader import is_pipe, open_file


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one row by column; `where` is what errors call it."""

    file: str
    number: int
    where: str
    values: Mapping[str, object]


def read_rows(paths: Iterable[str], *, numbered: bool, piped: Piped) -> Iterator[Row]:
    """Row after row of all files, in order.

    Args:
        numbered: whether columns are called by number, so that first lines are data.

    Raises:
        TextError: a path that does not exist, a file that is no table, is damaged or empty, or a
            row that cannot be read.
    """
    named = list(paths)
    if named.count("-") > 1:
        raise TextError("standard input is named twice: it holds one table; name - once")
    for path in named:
        if path == "-":
            yield from _require_rows(PIPED, _objects(PIPED, json_line_rows(PIPED, piped.opened())))
            continue
        for file in tables_in([path]):
            if is_pipe(file):
                lines = json_line_rows(path, piped.opened(file))
                yield from _require_rows(path, _objects(path, lines))
                continue
            with _inside(file) as (name, stream):
                yield from _require_rows(
                    str(file), _rows(str(file), name, stream, numbered=numbered)
                )


def _rows(name: str, inner: str, stream: BinaryIO, *, numbered: bool) -> Iterator[Row]:
    ending = Path(inner).suffix.lower()
    if ending in (".jsonl", ".ndjson"):
        return _objects(name, json_line_rows(name, stream))
    if ending == ".json":
        return _objects(name, json_list_rows(name, stream))
    if ending == ".parquet":
        return _objects(name, parquet_rows(name, stream, lambda _: None))
    if ending == ".csv":
        return _separated(name, stream, ",", numbered=numbered)
    if not numbered:
        if ending == ".tsv":
            return _separated(name, stream, "\t", numbered=False)
        raise TextError(
            f"{name} is not a table that names its columns (.jsonl, .ndjson, .json, .csv, .tsv, "
            ".parquet). If its lines are values with tabs between them, call the columns by "
            "number, such as --columns label=1,text=2; to learn from a text as a whole, choose "
            "another objective with --objective"
        )
    return _plain(name, stream)


def _objects(name: str, rows: Iterator[WholeRow]) -> Iterator[Row]:
    for number, where, value in rows:
        if not isinstance(value, dict):
            raise TextError(
                f"{where}: expected an object with named columns, was {short(value)}: write one "
                "object a row"
            )
        yield Row(name, number, where, cast("dict[str, object]", value))


def _separated(name: str, stream: BinaryIO, delimiter: str, *, numbered: bool) -> Iterator[Row]:
    names: list[str] = []
    for number, where, values in separated_lines(name, stream, delimiter):
        if number == 0:
            names = [str(i + 1) for i in range(len(values))] if numbered else values
            twice = sorted({title for title in names if names.count(title) > 1})
            if twice:
                raise TextError(
                    f"{name}: its first line names {listed(twice)} more than once: rename one, or "
                    "call columns by number if that line is data"
                )
            if numbered:
                yield Row(name, 1, f"{name}, row 1", dict(zip(names, values, strict=True)))
            continue
        # where the first line is data, it is the first row
        place, row_label = (
            (number + 1, f"{name}, row {number + 1}") if numbered else (number, where)
        )
        yield Row(name, place, row_label, dict(zip(names, values, strict=True)))


def _plain(name: str, stream: BinaryIO) -> Iterator[Row]:
    columns = 0
    for number, line in lines_of(name, stream):
        values = line.rstrip("\r\n").split("\t")
        if values == [""]:
            continue
        where = f"{name}, row {number}"
        columns = columns or len(values)
        if len(values) != columns:
            raise TextError(
                f"{where}: has {len(values)} values where the first line has {columns}, parted by "
                "tabs: mend it"
            )
        yield Row(name, number, where, {str(i): value for i, value in enumerate(values, 1)})


def _require_rows(name: str, rows: Iterator[Row]) -> Iterator[Row]:
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise TextError(f"{name} is empty: it has no rows")


@contextmanager
def _inside(file: Path) -> Generator[tuple[str, BinaryIO]]:
    """The bytes of a table, and the name whose ending says its kind."""
    inner = inner_name(file.name)
    if file.suffix.lower() in COMPRESSED and inner.lower().endswith((".parquet", ".zip")):
        raise TextError(f"{file}: such a file cannot be read from an archive: unpack it first")
    if file.suffix.lower() != ".zip":
        with opened(file) as stream:
            yield inner, stream
        return
    try:
        with open_file(file, refusal=TextError) as whole, zipfile.ZipFile(whole) as archive:
            member = _member(file, archive)
            with archive.open(member) as stream:
                yield member, cast("BinaryIO", stream)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise TextError(
            f"{file} is damaged, or not a .zip that can be read ({error}): fetch or make it again"
        ) from None
    except OSError as error:
        raise TextError(f"{file} cannot be read: {error.strerror or error}") from None


def _member(file: Path, archive: zipfile.ZipFile) -> str:
    names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    tables = [name for name in names if not Path(name).parts[0].startswith(("_", "."))]
    tables = [name for name in tables if not Path(name).name.startswith(("_", "."))]
    if len(tables) != 1:
        raise TextError(
            f"{file} holds {len(tables)} tables ({listed(tables)}): a .zip is read where it holds "
            "one; unpack it, and name the one you mean"
        )
    return tables[0]
