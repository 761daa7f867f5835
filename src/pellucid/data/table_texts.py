"""Tables of texts: JSON Lines, JSON, CSV, TSV and Parquet, one document per row.

Comes in: a stream of bytes, its name, and the field that holds the text. Goes out: the text of one
row after another. It does not know folders or archives.

What cannot be read is refused with the number of the row; a row whose text is empty or null is
given as "", for the caller to count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, cast

from pellucid.data.decode_text import refuse_nul
from pellucid.data.table_rows import (
    WholeRow,
    json_line_rows,
    json_list_rows,
    parquet_rows,
    separated_lines,
)
from pellucid.errors import TextError

Row = tuple[int, str]
Rows = Iterator[Row]
Read = Callable[[str, BinaryIO, str], Rows]


def json_lines(name: str, stream: BinaryIO, field: str) -> Rows:
    """One JSON object a line; a row's number is that of its line. Empty lines are no rows."""
    return _texts(json_line_rows(name, stream), field)


def json_rows(name: str, stream: BinaryIO, field: str) -> Rows:
    """A list of JSON objects, or JSON Lines; a row's number is its place."""
    return _texts(json_list_rows(name, stream), field)


def comma_separated(name: str, stream: BinaryIO, field: str) -> Rows:
    """CSV with the fields' names in its first line; rows are counted after that."""
    return _separated(name, stream, field, ",")


def tab_separated(name: str, stream: BinaryIO, field: str) -> Rows:
    """The same with tabs."""
    return _separated(name, stream, field, "\t")


def parquet(name: str, stream: BinaryIO, field: str) -> Rows:
    """One column of a Parquet file, a few hundred rows in memory at a time."""
    nested, names = False, [field]

    def choose(columns: list[str]) -> list[str]:
        nonlocal nested, names
        names = columns
        nested = field not in columns and field.partition(".")[0] in columns
        if not nested and columns.count(field) != 1:
            raise _no_column(name, field, columns)
        return [field]

    for number, where, value in parquet_rows(name, stream, choose):
        row = cast("dict[str, object]", value)
        if not row:  # a path with dots that leads nowhere
            raise _no_column(name, field, names)
        yield number, text_of(where, field, _nested(row, field) if nested else row[field])


#: How files of each ending are read.
TABLES: dict[str, Read] = {
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".json": json_rows,
    ".csv": comma_separated,
    ".tsv": tab_separated,
    ".parquet": parquet,
}


def field_of(where: str, row: object, field: str, *, flag: str = "--field") -> object:
    """What a row holds in `field`: by that very key, or else by a path with dots.

    Raises:
        TextError: there is no such field; says which there are, and the flag that chooses.
    """
    if not isinstance(row, dict):
        raise TextError(f"{where}: expected a JSON object with the field {field!r}")
    fields = cast("dict[str, object]", row)
    if field in fields:
        return fields[field]
    value: Any = fields
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            raise TextError(
                f"{where}: has no field {field!r}; it has: {listed(_paths(fields))}. Choose one "
                f"of them with {flag}"
            )
        value = cast("dict[str, Any]", value)[key]
    return cast("object", value)


def text_of(where: str, field: str, value: object, *, flag: str = "--field") -> str:
    """A value as text with line ends alike; null is "".

    Raises:
        TextError: it is no text, or one with a NUL or half a character.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TextError(
            f"{where}: the field {field!r} is not a text but {short(value)}: choose another with "
            f"{flag}"
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


def listed(names: Iterable[object]) -> str:
    """Names for an error, the first dozen of them."""
    texts = [str(name) for name in names]
    suffix = f" and {len(texts) - 12} more" if len(texts) > 12 else ""
    return (", ".join(short(name) for name in texts[:12]) or "none") + suffix


def short(value: object) -> str:
    """A value for an error, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"


def _texts(rows: Iterator[WholeRow], field: str) -> Rows:
    for number, where, row in rows:
        yield number, text_of(where, field, field_of(where, row, field))


def _separated(name: str, stream: BinaryIO, field: str, delimiter: str) -> Rows:
    place = 0
    for number, where, values in separated_lines(name, stream, delimiter):
        if number == 0:
            if values.count(field) != 1:
                raise _no_column(name, field, values)
            place = values.index(field)
        else:
            yield number, text_of(where, field, values[place])


def _paths(fields: dict[str, object], prefix: str = "") -> Iterator[str]:
    """The fields that could have been chosen, those of objects in objects with dots."""
    for key, value in fields.items():
        if isinstance(value, dict) and value:
            yield from _paths(cast("dict[str, object]", value), f"{prefix}{key}.")
        else:
            yield prefix + key


def _nested(value: object, field: str) -> object:
    """What lies at a path with dots; nothing where a part of the way is null."""
    for key in field.split("."):
        value = cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None
    return value


def _no_column(name: str, field: str, columns: list[str]) -> TextError:
    fault = "more than one field" if field in columns else "no field"
    return TextError(
        f"{name}: its first line names {fault} {field!r}; it has: {listed(columns)}. Choose one of "
        "them with --field"
        if not name.endswith(".parquet")
        else f"{name}: has {fault} {field!r}; it has: {listed(columns)}. Choose one with --field"
    )
