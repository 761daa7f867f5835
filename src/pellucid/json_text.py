"""JSON as pellucid writes it: never with a bare NaN or Infinity.

JSON has neither. Here they are the texts "nan", "inf" and "-inf", which Python's `float` and the
page read back as numbers.

Must not know: where the JSON goes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast


def json_text(
    value: object,
    *,
    indent: int | None = None,
    ensure_ascii: bool = True,
    sort_keys: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> str:
    """`json.dumps(value)`, with a text for each number that is not finite.

    >>> json_text({"loss": float("nan"), "norms": [1.0, float("-inf")]})
    '{"loss": "nan", "norms": [1.0, "-inf"]}'
    """
    write = partial(
        json.dumps,
        indent=indent,
        ensure_ascii=ensure_ascii,
        sort_keys=sort_keys,
        default=default,
        allow_nan=False,
    )
    try:
        return write(value)
    except ValueError:  # rare, so only then is the tree walked
        return write(_spell_out(value))


def _spell_out(tree: object) -> object:
    if isinstance(tree, float):
        return tree if math.isfinite(tree) else str(float(tree))
    if isinstance(tree, dict):
        items = cast("dict[Any, object]", tree).items()
        return {_spell_out(key): _spell_out(value) for key, value in items}
    if isinstance(tree, list | tuple):
        return [_spell_out(item) for item in cast("list[object]", tree)]
    return tree
