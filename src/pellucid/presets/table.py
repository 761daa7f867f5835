"""The table of presets: name, what it is, value.

Comes in: a name. Goes out: its `Run`, or a refusal that lists the names. Adding a preset touches
its own file and this table.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, cast

from pellucid.config import Run, encode
from pellucid.errors import ConfigError
from pellucid.presets.gpt2 import GPT2, GPT2_LARGE, GPT2_MEDIUM, GPT2_XL
from pellucid.presets.llama import LLAMA2_7B
from pellucid.presets.nano import NANO

PRESETS: Mapping[str, Run] = {
    "nano": NANO,
    "gpt2": GPT2,
    "gpt2-medium": GPT2_MEDIUM,
    "gpt2-large": GPT2_LARGE,
    "gpt2-xl": GPT2_XL,
    "llama2-7b": LLAMA2_7B,
}


def find(name: str) -> Run:
    """The preset called `name`.

    Raises:
        ConfigError: no preset has that name; the message lists those there are.
    """
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"; did you mean {near[0]!r}" if near else ""
        raise ConfigError(f"unknown preset {name!r}{hint}; presets: {', '.join(PRESETS)}")
    return PRESETS[name]


def diff(left: Run, right: Run) -> dict[str, tuple[object, object]]:
    """Every path whose value differs, with both values; "-" where one has no such path."""
    a, b = _flat(encode(left)), _flat(encode(right))
    paths = [*a, *(path for path in b if path not in a)]
    return {
        path: (a.get(path, "-"), b.get(path, "-"))
        for path in paths
        if a.get(path, "-") != b.get(path, "-")
    }


def _flat(table: Mapping[str, Any], at: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flat(cast("Mapping[str, Any]", value), f"{at}{key}.")
        else:
            flat[f"{at}{key}"] = value
    return flat
