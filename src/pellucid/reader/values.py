"""JSON and TOML from outside, parsed or refused.

Python's recursion limit bounds the depth of nested lists, its limit of digits the length of a
number, and a hook of the parser sees each number once.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from pellucid.errors import PellucidError
from pellucid.json_text import json_text
from pellucid.reader.opening import SMALL, Refusal, read_text, short

#: A table of JSON or TOML.
Table = dict[str, Any]

#: Digits of a whole number: fewer always fit into a float.
_DIGITS = 300
#: Bytes of a TOML file: our own have some thousands.
_TOML = 2**20
#: Characters of a line of TOML.
_LINE = 2**16
#: A key with so many dots that tomllib takes seconds and gigabytes for it.
_DEEP_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){64}""")
#: Half a character as JSON writes it; most are halves of a pair.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(
    file: str | Path, *, refusal: Refusal = PellucidError, limit: int = SMALL, lenient: bool = False
) -> Any:
    """The value in a JSON file.

    Args:
        file: a path.
        refusal: the kind of error to raise.
        limit: the largest number of bytes.
        lenient: as for `parse_json`.

    Raises:
        PellucidError: as `read_text` and `parse_json`.
    """
    text = read_text(file, limit=limit, refusal=refusal)
    return parse_json(text, str(file), refusal=refusal, lenient=lenient)


def read_json_table(
    file: str | Path, *, refusal: Refusal = PellucidError, limit: int = SMALL, lenient: bool = False
) -> Table:
    """The object in a JSON file.

    Args:
        file: a path.
        refusal: the kind of error to raise.
        limit: the largest number of bytes.
        lenient: as for `parse_json`.

    Raises:
        PellucidError: as `read_json`, or it holds something else.
    """
    return as_table(
        read_json(file, refusal=refusal, limit=limit, lenient=lenient), str(file), refusal
    )


def parse_json(
    text: str, name: str, *, refusal: Refusal = PellucidError, lenient: bool = False
) -> Any:
    """The value in a JSON text.

    Args:
        text: the text.
        name: what errors call it.
        refusal: the kind of error to raise.
        lenient: let NaN, Infinity and half characters through, as rows and logs have them.

    Raises:
        PellucidError: it is not JSON (names line and column); a number is not finite or too long;
            lists are nested too deep; or a text holds half a character.
    """
    try:
        value = decoder(lenient=lenient).decode(text.removeprefix("\ufeff"))
        if not lenient and _HALF.search(text):
            json_text(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise refusal(f"{name}: is not valid JSON ({_place(text, error)}): mend it") from None
    except RecursionError:
        raise refusal(f"{name}: {TOO_DEEP}") from None
    except UnicodeEncodeError as error:
        raise refusal(
            f"{name} holds {short(error.object[error.start])}, half a character: expected text "
            "that UTF-8 can spell"
        ) from None
    except ValueError as error:
        raise refusal(f"{name}: {error}") from None
    return value


def parse_json_table(
    text: str, name: str, *, refusal: Refusal = PellucidError, lenient: bool = False
) -> Table:
    """The object in a JSON text.

    Args:
        text: the text.
        name: what errors call it.
        refusal: the kind of error to raise.
        lenient: as for `parse_json`.

    Raises:
        PellucidError: as `parse_json`, or it holds something else.
    """
    return as_table(parse_json(text, name, refusal=refusal, lenient=lenient), name, refusal)


def json_lines(
    text: str, name: str, *, refusal: Refusal = PellucidError, lenient: bool = False
) -> Iterator[Any]:
    """The values of JSON Lines; empty lines have none.

    Args:
        text: the text.
        name: what errors call it.
        refusal: the kind of error to raise.
        lenient: as for `parse_json`.

    Raises:
        PellucidError: as `parse_json`; names the line.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield parse_json(line, f"{name}, line {number}", refusal=refusal, lenient=lenient)


def read_toml(file: str | Path, *, refusal: Refusal = PellucidError) -> Table:
    """The table in a TOML file.

    Raises:
        PellucidError: as `read_text` and `parse_toml`.
    """
    return parse_toml(read_text(file, limit=_TOML, refusal=refusal), str(file), refusal=refusal)


def parse_toml(text: str, name: str, *, refusal: Refusal = PellucidError) -> Table:
    """The table in a TOML text.

    Args:
        text: the text.
        name: what errors call it.
        refusal: the kind of error to raise.

    Raises:
        PellucidError: it is not TOML (names line and column); a number or a line is too long; or
            tables are nested too deep.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > _LINE:
            raise refusal(f"{name}, line {number}: is longer than {_LINE:,} characters")
        if _DEEP_KEY.search(line):
            raise refusal(f"{name}, line {number}: {TOO_DEEP}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise refusal(f"{name} is not valid TOML: {error}") from None
    except RecursionError:
        raise refusal(f"{name}: {TOO_DEEP}") from None
    except (ValueError, OverflowError) as error:  # of a number or a date
        raise refusal(f"{name}: a value cannot be read: {error}") from None


def as_table(value: object, name: str, refusal: Refusal = PellucidError) -> Table:
    """A JSON object as a table.

    Args:
        value: a JSON value.
        name: what errors call it.
        refusal: the kind of error to raise.

    Raises:
        PellucidError: it is another kind of value.
    """
    if not isinstance(value, dict):
        raise refusal(f"{name} must be an object with names, was {short(value)}")
    return cast("Table", value)


TOO_DEEP = "lists or tables are nested too deep: expected some dozens at most"


def _parse_int(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"has a number of {len(digits):,} digits: expected {_DIGITS} at most")
    return int(digits)


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"has the number {short(digits)[1:-1]}: too large for a float")
    return number


def _no_constant(name: str) -> float:
    raise ValueError(f"has {name} where a number must be: expected a finite one")


def decoder(*, lenient: bool) -> json.JSONDecoder:
    """The parser, with the hooks that see each number."""
    return _ANY_NUMBER if lenient else _FINITE


_FINITE = json.JSONDecoder(
    parse_int=_parse_int, parse_float=_parse_float, parse_constant=_no_constant
)
_ANY_NUMBER = json.JSONDecoder(parse_int=_parse_int)


def _place(text: str, error: json.JSONDecodeError) -> str:
    """The place at which a text stops being JSON, the text there, and what the parser expects."""
    excerpt = text[error.pos : error.pos + 20]
    line = f"line {error.lineno}, " if "\n" in text.strip() else ""
    description = f"found {short(excerpt)}" if excerpt else "the text ends there"
    message = error.msg[:1].lower() + error.msg[1:]
    return f"{line}column {error.colno}: {message}; {description}"
