"""The library `transformers`, no dependency of ours, and the cache that its `generate` keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any

from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.model import KeyValueCache


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


class PellucidCache:
    """One cache for each layer; all layers have seen the same tokens."""

    #: `generate` asks before it compiles a model, or takes tokens back.
    is_compileable = False
    is_croppable = False

    def __init__(self, layers: Sequence[KeyValueCache]) -> None:
        self.layers = list(layers)

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def is_linear(self) -> list[bool]:
        """Whether a layer has no length: `generate` reads the length of all others."""
        return [False] * len(self.layers)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """The number of tokens in the cache."""
        return self.layers[layer_idx].length

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Row i becomes the former row `beam_idx[i]`."""
        for layer in self.layers:
            layer.reorder(beam_idx)
