"""The library `transformers`, which is not a dependency of pellucid."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Any

from pellucid.errors import PellucidError


def _library() -> Any:
    try:
        return import_module("transformers")
    except ImportError:
        raise PellucidError(
            "pellucid.transformers needs the library transformers, which is missing: "
            "pip install transformers"
        ) from None


transformers: Any = _library()
outputs: Any = import_module("transformers.modeling_outputs")

#: The name of the cache in outputs and arguments: it was past_key_values before version 5.
CACHE = (
    "cache"
    if any(field.name == "cache" for field in fields(outputs.CausalLMOutputWithPast))
    else "past_key_values"
)
