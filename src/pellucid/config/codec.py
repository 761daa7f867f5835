"""Strict, tagged translation between frozen dataclasses and TOML or JSON tables.

A union of dataclasses is read by its tag `kind = "RMSNorm"`. A kind whose numbers are all left out
may be written as the bare string. `None` is written by leaving the key out, and may be given as
the string "none" where a value that a preset sets has to be taken away.
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
from pellucid.errors import ConfigError
from pellucid.reader import short

T = TypeVar("T")


def encode(value: object) -> Any:
    """The table of a config dataclass: tagged, `None` left out, tuples as lists."""
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


def decode(kind: type[T], data: object, at: str = "config") -> T:
    """The value of type `kind` that `data` describes; `at` is the path named in errors."""
    if isinstance(data, dict):
        data = with_new_kinds(cast("Table", data))
    return cast("T", _decode(kind, data, at))


def _decode(kind: Any, data: object, at: str) -> object:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(kind), data, at)
    if origin is Literal:
        return _decode_literal(typing.get_args(kind), data, at)
    if origin is tuple:
        return _decode_tuple(typing.get_args(kind), data, at)
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(cast("type[Any]", kind), data, at)
    return _decode_scalar(kind, data, at)


def _decode_union(members: tuple[Any, ...], data: object, at: str) -> object:
    if types.NoneType in members:
        if data is None or data == "none":
            return None
        members = tuple(member for member in members if member is not types.NoneType)
        if len(members) == 1:
            return _decode(members[0], data, at)
    by_name = {member.__name__: member for member in members}
    tag = data if isinstance(data, str) else _table(data, at).get("kind")
    if tag is None:
        raise ConfigError(f"{at}: missing 'kind'; choices: {', '.join(by_name)}")
    if not isinstance(tag, str) or tag not in by_name:
        raise ConfigError(
            f"{at}: unknown kind {short(tag)}{_did_you_mean(tag, by_name)}; "
            f"choices: {', '.join(by_name)}"
        )
    return _decode_dataclass(by_name[tag], {} if isinstance(data, str) else data, at)


def _decode_dataclass(kind: type[Any], data: object, at: str) -> object:
    table = dict(_table(data, at))
    tag = table.pop("kind", kind.__name__)
    if tag != kind.__name__:
        raise ConfigError(f"{at}: kind is {short(tag)}, but only {kind.__name__} can stand here")
    hints = _hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    has = f"{kind.__name__} has: {', '.join(names) or 'no keys'}"
    for key in table:
        if key not in names:
            raise ConfigError(
                f"{_format_path(at)}unknown key {short(key)}{_did_you_mean(key, names)}; {has}"
            )
    values: dict[str, object] = {}
    for field in dataclasses.fields(kind):
        where = f"{at}.{field.name}" if at else field.name
        if field.name in table:
            values[field.name] = _decode(hints[field.name], table[field.name], where)
        elif field.default is not dataclasses.MISSING:
            continue  # what is left out is not there
        elif types.NoneType in typing.get_args(hints[field.name]):
            values[field.name] = None
        else:
            raise ConfigError(f"{_format_path(at)}missing {field.name!r}; {has}")
    try:
        return kind(**values)
    except ConfigError as error:
        raise ConfigError(f"{_format_path(at)}{error}") from None


@functools.cache
def _hints(kind: type[Any]) -> Mapping[str, Any]:
    """The types of a class's fields, looked up once."""
    return typing.get_type_hints(kind)


def _decode_literal(choices: tuple[Any, ...], data: object, at: str) -> object:
    if not isinstance(data, str) or data not in choices:
        near = _did_you_mean(data, [str(choice) for choice in choices])
        raise ConfigError(f"{at}: was {short(data)}{near}; choices: {', '.join(map(str, choices))}")
    return data


def _decode_tuple(items: tuple[Any, ...], data: object, at: str) -> object:
    if not isinstance(data, (list, tuple)):
        raise ConfigError(f"{at}: expected a list, was {short(data)}")
    values = list(cast("Iterable[object]", data))
    if items[-1] is Ellipsis:
        items = (items[0],) * len(values)
    if len(values) != len(items):
        raise ConfigError(f"{at}: expected {len(items)} values, was {short(values)}")
    return tuple(
        _decode(kind, value, f"{at}[{index}]")
        for index, (kind, value) in enumerate(zip(items, values, strict=True))
    )


_SCALARS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}
#: Whole numbers that arrays can hold; this one is their end.
_WIDEST = 2**63


def _decode_scalar(kind: type, data: object, at: str) -> object:
    # bool is a subclass of int, so `type(...) is` and not isinstance
    if type(data) is int and not -_WIDEST <= data < _WIDEST:
        raise ConfigError(f"{at}: expected a number of at most 64 bits, was {short(data)}")
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise ConfigError(f"{at}: expected {_SCALARS[kind]}, was {short(data)}")
    if isinstance(data, float) and not math.isfinite(data):
        raise ConfigError(f"{at}: expected a finite number, was {data}")
    if isinstance(data, str) and not _is_spelled(data):
        raise ConfigError(f"{at}: expected a text that UTF-8 can spell, was {short(data)}")
    return data


def _is_spelled(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character
        return False
    return True


def _table(data: object, at: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{at}: expected a table, was {short(data)}")
    return cast("Mapping[str, Any]", data)


def _format_path(at: str) -> str:
    return f"{at}: " if at else ""


def _did_you_mean(word: object, choices: Iterable[str]) -> str:
    if not isinstance(word, str) or len(word) > 100:  # no slip of the finger
        return ""
    near = difflib.get_close_matches(word, list(choices), n=1)
    return f"; did you mean {near[0]!r}" if near else ""


def overlay(base: Table, over: Table) -> Table:
    """`base` with the keys of `over` laid on top, table by table.

    Where `over` names another kind than `base`, nothing of the base's table is kept: the numbers
    of one kind mean nothing to another.
    """
    if "kind" in over and over["kind"] != base.get("kind"):
        return over
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[key] = overlay(cast("Table", below), cast("Table", value))
        elif isinstance(below, dict) and cast("Table", below).get("kind") == value:
            pass  # the bare name of the kind that already stands there
        else:
            merged[key] = value
    return merged


def assignment(text: str) -> Table:
    """The one-path table that `--set path=value` means.

    The value is read as TOML; a bare word that TOML does not know is taken as a text.

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
    """The table in a TOML text; `name` is what the error calls it."""
    return reader.parse_toml(text, name, refusal=ConfigError)


def to_toml(value: object) -> str:
    """A config dataclass as TOML text, with its tags."""
    return tomli_w.dumps(encode(value))
