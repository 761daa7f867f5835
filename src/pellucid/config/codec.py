"""Strict, tagged translation between frozen dataclasses and TOML or JSON tables.

The tag `kind = "RMSNorm"` names the member of a union. You may write a kind without settings as a
bare string. An absent key means `None`; write "none" to remove a value that a preset sets.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, cast

import tomli_w

from pellucid import reader
from pellucid.config.old_names import Table, with_new_kinds
from pellucid.config.other_words import our_key
from pellucid.errors import ConfigError
from pellucid.reader import short

T = TypeVar("T")


def encode(value: object) -> Any:
    """The table of a config dataclass: with its tag, without `None`, tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        table: Table = {"kind": type(value).__name__}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if item is not None:
                table[field.name] = encode(item)
        return table
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in cast("Iterable[object]", value)]
    return value


def flatten(table: Table, path: str = "") -> Table:
    """The values of nested tables by their keys with dots, such as training.batch_size.

    Args:
        table: the tables.
        path: of the table itself.
    """
    values: Table = {}
    for key, value in table.items():
        name = f"{path}.{key}" if path else key
        values |= flatten(cast("Table", value), name) if isinstance(value, dict) else {name: value}
    return values


def decode(kind: type[T], data: object, path: str = "config") -> T:
    """The value of type `kind` that `data` describes.

    Args:
        kind: a config dataclass, or a union of them.
        data: a table, or the bare name of a kind.
        path: the path that errors name.

    Raises:
        ConfigError: an unknown kind or key, or a value of the wrong type or range.
    """
    if isinstance(data, dict):
        data = with_new_kinds(cast("Table", data))
    return cast("T", _decode(kind, data, path))


def _decode(kind: Any, data: object, path: str) -> object:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(kind), data, path)
    if origin is Literal:
        return _decode_literal(typing.get_args(kind), data, path)
    if origin is tuple:
        return _decode_tuple(typing.get_args(kind), data, path)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(cast("type[Any]", kind), data, path)
    return _decode_scalar(kind, data, path)


def _decode_union(members: tuple[Any, ...], data: object, path: str) -> object:
    if types.NoneType in members:
        if data is None or data == "none":
            return None
        members = tuple(member for member in members if member is not types.NoneType)
        if len(members) == 1:
            return _decode(members[0], data, path)
    by_name = {member.__name__: member for member in members}
    tag = data if isinstance(data, str) else _table(data, path).get("kind")
    if tag is None:
        raise ConfigError(f"{path}: missing 'kind'; choices: {', '.join(by_name)}")
    if not isinstance(tag, str) or tag not in by_name:
        raise ConfigError(
            f"{path}: unknown kind {short(tag)}{did_you_mean(tag, by_name)}; "
            f"choices: {', '.join(by_name)}"
        )
    return _decode_dataclass(by_name[tag], {} if isinstance(data, str) else data, path)


def _decode_dataclass(kind: type[Any], data: object, path: str) -> object:
    table = dict(_table(data, path))
    tag = table.pop("kind", kind.__name__)
    if tag != kind.__name__:
        raise ConfigError(f"{path}: kind is {short(tag)}, and only {kind.__name__} is allowed")
    hints = _hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    known_keys = f"{kind.__name__} has: {', '.join(names) or 'no keys'}"
    for key in table:
        if key not in names:
            ours = our_key(key)
            slips = names if ours == key else [name for name in names if name == ours]
            hint = did_you_mean(ours, slips) or _hint_below(table, ours)
            raise ConfigError(f"{_prefix(path)}unknown key {short(key)}{hint}; {known_keys}")
    values: dict[str, object] = {}
    for field in dataclasses.fields(kind):
        field_path = f"{path}.{field.name}" if path else field.name
        if field.name in table:
            values[field.name] = _decode(hints[field.name], table[field.name], field_path)
        elif field.default is not dataclasses.MISSING:
            continue
        elif types.NoneType in typing.get_args(hints[field.name]):
            values[field.name] = None
        else:
            raise ConfigError(f"{_prefix(path)}missing {field.name!r}; {known_keys}")
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(f"{_prefix(path)}{error}") from None


def _hint_below(table: Mapping[str, Any], key: str) -> str:
    """The end of a message about a key that a table further down has, or has as its kind."""
    place, kind = place_below(table, key)
    if kind:
        return f"; did you mean {place!r}, of kind {kind}"
    return f"; did you mean {place!r}" if place else ""


def place_below(table: Mapping[str, Any], key: str) -> tuple[str, str]:
    """The dotted path at which a table further down has a key, or is of the kind `key`; and that
    kind. Both are empty if no table has it.
    """
    tables = [("", table)]
    while tables:
        tables = [
            (f"{path}{name}.", cast("Table", value))
            for path, parent_table in tables
            for name, value in parent_table.items()
            if isinstance(value, dict)
        ]
        for path, lower_table in tables:
            if key in lower_table:
                return f"{path}{key}", ""
            if str(lower_table.get("kind")).lower() == key.lower():
                return path.removesuffix("."), str(lower_table["kind"])
    return "", ""


@functools.cache
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    """The types of a class's fields, looked up once."""
    return typing.get_type_hints(kind)


def _decode_literal(choices: tuple[Any, ...], data: object, path: str) -> object:
    if not isinstance(data, str) or data not in choices:
        hint = did_you_mean(data, [str(choice) for choice in choices])
        raise ConfigError(
            f"{path}: was {short(data)}{hint}; choices: {', '.join(map(str, choices))}"
        )
    return data


def _decode_tuple(items: tuple[Any, ...], data: object, path: str) -> object:
    if not isinstance(data, (list, tuple)):
        raise ConfigError(f"{path}: expected a list, was {short(data)}")
    values = list(cast("Iterable[object]", data))
    if items[-1] is Ellipsis:
        items = (items[0],) * len(values)
    if len(values) != len(items):
        raise ConfigError(f"{path}: expected {len(items)} values, was {short(values)}")
    return tuple(
        _decode(kind, value, f"{path}[{index}]")
        for index, (kind, value) in enumerate(zip(items, values, strict=True))
    )


_SCALARS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}
#: Arrays hold whole numbers below this one.
_WIDEST = 2**63


def _decode_scalar(kind: type, data: object, path: str) -> object:
    # bool is a subclass of int, so `type(...) is` and not isinstance
    if type(data) is int and not -_WIDEST <= data < _WIDEST:
        raise ConfigError(f"{path}: expected a number of at most 64 bits, was {short(data)}")
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise ConfigError(f"{path}: expected {_SCALARS[kind]}, was {short(data)}")
    if isinstance(data, float) and not math.isfinite(data):
        raise ConfigError(f"{path}: expected a finite number, was {data}")
    if isinstance(data, str) and not _is_utf8(data):
        raise ConfigError(f"{path}: expected a text that UTF-8 can spell, was {short(data)}")
    return data


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character
        return False
    return True


def _table(data: object, path: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{path}: expected a table, was {short(data)}")
    return cast("Mapping[str, Any]", data)


def _prefix(path: str) -> str:
    return f"{path}: " if path else ""


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """The end of a message about an unknown word: the most similar choice, if any is similar."""
    match = nearest_word(word, choices)
    return "" if match is None else f"; did you mean {match!r}"


def nearest_word(word: object, choices: Iterable[str]) -> str | None:
    """The choice that an unknown word begins or may be a slip of; None if no choice is similar."""
    if not isinstance(word, str) or not 0 < len(word) <= 100:  # longer is no typing mistake
        return None
    choices = list(choices)
    longer_words = [choice for choice in choices if choice.startswith(word)]
    if longer_words:
        return min(longer_words, key=len)
    return next(iter(difflib.get_close_matches(word, choices, n=1)), None)


def overlay(base: Table, changes: Table) -> Table:
    """`base` with `changes` merged into it, table by table.

    If `changes` names another kind, it replaces the whole table: the settings of one kind mean
    nothing to another.
    """
    if "kind" in changes and changes["kind"] != base.get("kind"):
        return changes
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            merged[key] = overlay(cast("Table", old), cast("Table", value))
        elif not (isinstance(old, dict) and cast("Table", old).get("kind") == value):
            merged[key] = value  # else it is the bare name of the same kind: its settings stay
    return merged


def assignment(text: str) -> Table:
    """The table of one `--set path=value`.

    The value is TOML; a word that TOML does not know is a text.

    >>> assignment("model.decoder.norm.eps=1e-6")
    {'model': {'decoder': {'norm': {'eps': 1e-06}}}}
    """
    path, equals, value = text.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"--set {text}: expected PATH=VALUE, such as training.batch_size=16")
    try:
        item: Any = parse_toml(f"value = {value}", path)["value"]
    except ConfigError:
        item = value.strip()
    for key in reversed(keys):
        item = {key: item}
    return item


def parse_toml(text: str, name: str) -> Table:
    """The table in a TOML text that errors call `name`."""
    return reader.parse_toml(text, name, refusal=ConfigError)


def to_toml(value: object) -> str:
    """A config dataclass as TOML text, with its tags."""
    return tomli_w.dumps(encode(value))
