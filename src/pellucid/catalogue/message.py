"""Texts that can be shown in any language: English, with a key and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pellucid.catalogue.languages import SOURCE, Text, texts

Value = str | int | float
#: The key of messages one after the other; their values are numbered.
CHAIN = "+"


class Message(str):
    """A text in English that knows its `key` in the catalogue and the `values` in it.

    The page shows it in another language; to everything else it is English text. Text that is
    formatted or cut out of it is plain: put a message into another one as a value. `+` makes a
    message of two.
    """

    key: str
    values: Mapping[str, Value]

    def __new__(cls, english: str, key: str, values: Mapping[str, Value]) -> Message:
        """A text whose English is made already; `message` makes both."""
        text = super().__new__(cls, english)
        text.key, text.values = key, values
        return text

    def __add__(self, other: str) -> Message:
        return _chain(self, other)

    def __radd__(self, other: str) -> Message:
        return _chain(other, self)

    def __getnewargs__(self) -> tuple[str, str, Mapping[str, Value]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return str(self), self.key, self.values


def message(key: str, /, **values: object) -> Message:
    """A text of the catalogue with its places filled in.

    Args:
        key: Its key in `languages/en.toml`.
        values: The values of its `{name}` places. Numbers are formatted in the reader's language;
            other objects are taken as text. `n` chooses the plural form.

    Raises:
        KeyError: There is no such text, or it has a place without a value.
    """
    plain = {name: _as_value(value) for name, value in values.items()}
    return Message(choose_form(texts(SOURCE)[key], plain).format(**plain), key, plain)


def messages(*keys: str) -> tuple[Message, ...]:
    """Texts without places, such as the headings of a table.

    Raises:
        KeyError: There is no such text, or it has a place.
    """
    return tuple(map(message, keys))


def join(separator: str, parts: Iterable[str]) -> str:
    """Texts with a separator between them; a message if one of them is.

    Args:
        separator: Between two of them, such as a comma, which is the same in all languages.
        parts: The texts.
    """
    joined: str = ""
    for number, part in enumerate(parts):
        joined = part if number == 0 else joined + separator + part
    return joined


def choose_form(text: Text, values: Mapping[str, Value]) -> str:
    """The form of an English text for its `n`; a text without plural forms itself."""
    return text if isinstance(text, str) else text["one" if values["n"] == 1 else "other"]


def _as_value(value: object) -> Value:
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return value if is_plain else str(value)  # pyright: ignore[reportReturnType]


def _chain(first: str, second: str) -> Message:
    parts = [
        part
        for text in (first, second)
        for part in (
            text.values.values() if isinstance(text, Message) and text.key == CHAIN else (text,)
        )
        if part != ""
    ]
    values = {str(number): part for number, part in enumerate(parts)}
    return Message("".join(map(str, parts)), CHAIN, values)
