"""The caches of our decoder, as `generate` of `transformers` keeps and reorders them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from pellucid.model import KeyValueCache


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
