"""How you choose a column: by its name, by a path with dots, or by a text with columns in braces.

    english                          the column of that name, or at that path with dots
    2                                the second column of a table that names none
    Translate to French: {english}   a text with columns in it; {{ and }} are braces

If you choose no column, pellucid takes the one with a usual name, if there is exactly one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, cast

from pellucid.data.decode_text import refuse_nul
from pellucid.data.table_rows import Row, format_names, short
from pellucid.errors import ConfigError, TextError

FLAG = "--columns"

#: The usual names of each part, in lower case.
USUAL: Mapping[str, tuple[str, ...]] = {
    "prompt": ("prompt", "instruction", "question", "query"),
    "answer": ("answer", "response", "output", "completion"),
    "messages": ("messages", "conversations", "conversation"),
    "source": ("source", "src", "document", "article", "question"),
    "target": ("target", "tgt", "summary", "highlights", "answer"),
    "text": ("text", "sentence", "sms", "review", "message"),
    "label": ("label", "labels", "class", "category"),
    "chosen": ("chosen",),
    "rejected": ("rejected",),
}
#: Columns of translations are called by their language; the first in the row is the source.
_CODES = "en fr de es it pt nl pl ru zh ja ko ar tr sv da fi no cs el he hi ro hu uk"
_NAMES = (
    "english french german spanish italian portuguese dutch polish russian chinese japanese korean "
    "arabic turkish swedish danish finnish norwegian czech greek hebrew hindi romanian hungarian "
    "ukrainian"
)
LANGUAGES = frozenset([*_CODES.split(), *_NAMES.split()])


@dataclass(frozen=True, slots=True)
class Column:
    """Makes a value of a row; `choice` is your choice of column, for messages."""

    choice: str
    names: tuple[str, ...]
    pattern: tuple[tuple[str, str | None], ...] = ()
    with_input: str | None = None

    def value(self, row: Row) -> object:
        """The value in the row, of any type.

        Raises:
            TextError: the row has no such column.
        """
        if self.pattern or self.with_input is not None:
            return self.text(row)
        return field_of(row.location, row.values, self.names[0], flag=_flag(self.names[0]))

    def text(self, row: Row) -> str:
        """The text in the row, with every line end as "\\n".

        It is "" if the value is null, or if all columns of a pattern are blank.

        Raises:
            TextError: the row has no such column, or the value is no text.
        """
        if self.pattern:
            parts = [(literal, self._text_of(row, name)) for literal, name in self.pattern]
            has_text = any(value.strip() for _, value in parts)
            return "".join(literal + value for literal, value in parts) if has_text else ""
        text = self._text_of(row, self.names[0])
        extra = row.values.get(self.with_input) if self.with_input is not None else None
        input_text = (
            ""
            if self.with_input is None
            else text_of(row.location, self.with_input, extra, flag=FLAG)
        )
        return f"{text}\n\n{input_text}" if input_text.strip() else text

    def _text_of(self, row: Row, name: str | None) -> str:
        if name is None:
            return ""
        flag = _flag(name)
        return text_of(
            row.location, name, field_of(row.location, row.values, name, flag=flag), flag=flag
        )


def parse_column(choice: str) -> Column:
    """The column that you chose.

    Raises:
        ConfigError: it has an unmatched brace, or a pair of braces without a name.
    """
    if "{" not in choice and "}" not in choice:
        return Column(choice, (choice,))
    try:
        parts = list(Formatter().parse(choice))
    except ValueError as error:
        raise _wrong(choice, str(error)) from None
    for _, name, form, conversion in parts:
        if name == "" or form or conversion:
            raise _wrong(choice, "between braces, write only the name of a column")
    names = tuple(name for _, name, _, _ in parts if name is not None)
    if not names:
        raise _wrong(choice, "it names no column, so all rows would be alike")
    return Column(choice, names, tuple((literal, name) for literal, name, _, _ in parts))


def are_numbered(columns: Sequence[str | None]) -> bool:
    """Whether you chose columns by number: then the first line of a table is data.

    Raises:
        ConfigError: you chose some by number and some by name.
    """
    names = [
        name for choice in columns if choice is not None for name in parse_column(choice).names
    ]
    numbers = [name for name in names if name.isascii() and name.isdigit()]
    if numbers and len(numbers) < len(names):
        raise ConfigError(
            f"choose columns by number or by name, not both: {', '.join(names)}. Numbers are "
            "for tables whose first line is data"
        )
    return bool(numbers)


def usual_column(part: str, row: Row) -> Column:
    """The column of `row` with a usual name for `part`.

    If that is `instruction` and the row has an `input`, the text is the instruction and then the
    input.

    Raises:
        TextError: no column has a usual name, or more than one.
    """
    column = find_usual(part, row)
    if column is None:
        raise TextError(
            f"{row.location}: no column has a usual name for the {part} "
            f"({', '.join(USUAL[part])}); it has: {format_names(row.values)}. Choose one with "
            f"{FLAG} {part}=NAME, such as {FLAG} source=english,target=french"
        )
    return column


def find_usual(part: str, row: Row) -> Column | None:
    """As `usual_column`; None if no column has a usual name."""
    names = [name for name in row.values if name.strip().lower() in USUAL[part]]
    if len(names) > 1:
        raise TextError(
            f"{row.location}: its columns {format_names(names)} may each be the {part}. Choose one "
            f"with {FLAG} {part}={names[0]}"
        )
    if not names:
        return None
    if names[0].lower() == "instruction" and "input" in row.values:
        return Column("instruction, then input", (names[0],), with_input="input")
    return Column(names[0], (names[0],))


def find_languages(row: Row) -> tuple[Column, Column] | None:
    """The two columns that are called by a language, in the row or in its object `translation`."""
    translation = row.values.get("translation")
    values, prefix = row.values, ""
    if isinstance(translation, dict):
        values, prefix = cast("dict[str, object]", translation), "translation."
    names = [prefix + name for name in values if name.strip().lower() in LANGUAGES]
    if len(names) != 2:
        return None
    return Column(names[0], (names[0],)), Column(names[1], (names[1],))


def field_of(location: str, values: Mapping[str, object], field: str, *, flag: str) -> object:
    """The value of a row in `field`: under that key, or else at a path with dots.

    It is None if a part of the path is null.

    Args:
        location: the name of the row in messages.
        values: the row.
        field: the name or the path.
        flag: the option that chooses another field, for messages.

    Raises:
        TextError: the row has no such field; the message lists its fields.
    """
    if field in values:
        return values[field]
    value: Any = values
    for key in field.split("."):
        if value is None:
            return None
        if not isinstance(value, Mapping) or key not in value:
            raise TextError(
                f"{location}: has no field {field!r}; it has: {format_names(_paths(values))}. "
                f"Choose one of them with {flag}"
            )
        value = cast("dict[str, Any]", value)[key]
    return cast("object", value)


def text_of(location: str, field: str, value: object, *, flag: str) -> str:
    """A value as text in which every line end is "\\n"; null is "".

    Args:
        location: the name of the row in messages.
        field: the value's name.
        value: the value.
        flag: the option that chooses another field, for messages.

    Raises:
        TextError: the value is no text, or a text with a NUL or half a character.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TextError(
            f"{location}: the field {field!r} is not a text but {short(value)}: choose another "
            f"with {flag}"
        )
    refuse_nul(location, value)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            f"{location}: the text has half of a surrogate pair at character {error.start}, which "
            "is no character: correct it"
        ) from None
    return value.replace("\r\n", "\n").replace("\r", "\n")


def _paths(fields: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """The fields that you can choose; those within objects are paths with dots."""
    for key, value in fields.items():
        if isinstance(value, dict) and value:
            yield from _paths(cast("dict[str, object]", value), f"{prefix}{key}.")
        else:
            yield prefix + key


def _flag(name: str) -> str:
    return f"{FLAG}, in place of {name!r}"


def _wrong(choice: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the column {choice!r} cannot be read: {reason}. Write a column's name, or a text with "
        "names in braces, such as 'Translate: {english}'; {{ and }} are braces themselves"
    )
