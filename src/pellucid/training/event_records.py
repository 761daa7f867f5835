"""Events as the records of `metrics.jsonl`.

Each field of a record must have the type that its event declares.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Mapping
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from pellucid.reader import short
from pellucid.training.events import Event

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}
#: Whole numbers that arrays can hold; this one is their end.
_WIDEST = 2**63


def to_record(event: Event) -> dict[str, Any]:
    """The event as JSON; a float that is not finite becomes {"float": "nan"}."""
    fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    return {"event": type(event).__name__} | {key: _encode(value) for key, value in fields.items()}


def from_record(record: dict[str, Any]) -> Event:
    """The event of a record that `to_record` made.

    Raises:
        ValueError: the record is of no known event, or a field is missing or of another type.
    """
    fields = dict(_upgrade(record))
    name = fields.pop("event", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"not an event of this version of pellucid: {short(name)}")
    types_of = _types(kind)
    for key in fields.keys() - types_of.keys():
        raise ValueError(f"not an event of this version of pellucid: {name} has no {short(key)}")
    try:
        event = kind(**{key: _decode(value, types_of[key], key) for key, value in fields.items()})
    except TypeError as error:  # a field is missing
        raise ValueError(f"not an event of this version of pellucid: {error}") from None
    if event.step < 0 or getattr(event, "losses", True) == ():
        raise ValueError(f"{name}: expected a step of at least 0, and a loss for each update")
    return cast("Event", event)


@functools.cache
def _types(kind: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _upgrade(record: dict[str, Any]) -> dict[str, Any]:
    """A record in the form of today: log Z and bits per byte were once fields of their own."""
    match record:
        case {"event": "Logged", "log_z": values, **others}:
            return others | {"event": "Logged", "parts": [["log_z", values]]}
        case {"event": "Evaluated", "bits_per_byte": value, "tokens": n_tokens, **others}:
            measures = [["bits_per_byte", value]]
            return others | {
                "event": "Evaluated",
                "over": n_tokens,
                "unit": "tokens",
                "measures": measures,
            }
        case _:
            return record


def _encode(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, tuple):
        return [_encode(item) for item in cast("tuple[object, ...]", value)]
    return value


def _decode(value: object, kind: Any, key: str) -> object:
    """Convert a value of JSON to the type that a field declares."""
    if get_origin(kind) in (Union, types.UnionType):  # only ever with None
        if value is None:
            return None
        kind = next(member for member in get_args(kind) if member is not types.NoneType)
    if get_origin(kind) is tuple:
        return _decode_tuple(value, get_args(kind), key)
    if kind is float:
        return _decode_float(value, key)
    if type(value) is not kind or (kind is int and not -_WIDEST <= cast("int", value) < _WIDEST):
        raise ValueError(f"{key}: expected {kind.__name__}, was {short(value)}")
    return value


def _decode_tuple(value: object, members: tuple[Any, ...], key: str) -> object:
    if not isinstance(value, list):
        raise ValueError(f"{key}: expected a list, was {short(value)}")
    items = cast("list[object]", value)
    if members[-1] is Ellipsis:
        members = (members[0],) * len(items)
    if len(members) != len(items):
        raise ValueError(f"{key}: expected {len(members)} values, was {short(items)}")
    return tuple(_decode(item, kind, key) for item, kind in zip(items, members, strict=True))


def _decode_float(value: object, key: str) -> float:
    match value:
        case float():
            return value
        case int() if not isinstance(value, bool):
            return float(value)
        case {"float": "nan"}:
            return math.nan
        case {"float": "inf"}:
            return math.inf
        case {"float": "-inf"}:
            return -math.inf
        case _:
            raise ValueError(f"{key}: expected a number, was {short(value)}")
