"""Layers that have their matrix in few bits and nowhere else: a product widens it for a moment.

They compute with the same numbers as a matrix in float32. `weight` is that matrix, made anew each
time you ask, so there is no parameter of that name to train or to write to.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.errors import ConfigError
from pellucid.model.facts import EmbeddingFacts, LinearFacts
from pellucid.model.precision import Narrow
from pellucid.typed import named_modules


class _Packed(nn.Module):
    """What both layers share: the packed matrix in the place of the parameter."""

    packed: Narrow

    @property
    def weight(self) -> Float[Tensor, "rows columns"]:
        """The matrix in float32, which cannot be written to."""
        with torch.inference_mode():  # torch refuses a write to such a tensor, which would be lost
            return self.packed.wide()

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        cast("Any", super())._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = self.packed.wide()


class PackedLinear(_Packed, nn.Linear):  # pyright: ignore[reportIncompatibleVariableOverride]
    """W x + b, in the dtype of the product: float32, or bfloat16 under autocast."""

    def forward(self, input: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """The product with the widened matrix."""
        device = input.device.type
        autocast = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if autocast else input.dtype
        return F.linear(input, self.packed.wide(dtype), self.bias)

    def facts(self) -> LinearFacts:
        """Its size."""
        has_bias = cast("Any", self).bias is not None
        return LinearFacts(
            n_inputs=self.in_features,
            n_outputs=self.out_features,
            bias="bias" if has_bias else None,
        )


class PackedEmbedding(_Packed, nn.Embedding):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A table whose rows are widened when they are looked up."""

    def forward(self, input: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch features"]:
        """The widened rows."""
        return self.packed.rows(input.flatten()).view(*input.shape, self.embedding_dim)

    def facts(self) -> EmbeddingFacts:
        """Its size."""
        return EmbeddingFacts(n_rows=self.num_embeddings, width=self.embedding_dim)


def pack_layer(layer: nn.Module, packed: Narrow) -> None:
    """Give a linear layer or an embedding a packed matrix in the place of its parameter."""
    kind = PackedLinear if isinstance(layer, nn.Linear) else PackedEmbedding
    untyped = cast("Any", layer)
    del untyped.weight
    untyped.__class__ = kind
    untyped.packed = packed


def packed_of(layer: nn.Module) -> Narrow | None:
    """The packed matrix of a layer; None if it has a parameter."""
    return layer.packed if isinstance(layer, _Packed) else None


def is_packed(model: nn.Module) -> bool:
    """Whether a matrix of the model is packed, and no parameter."""
    return any(isinstance(module, _Packed) for module in named_modules(model).values())


def unpack(model: nn.Module) -> None:
    """Give packed layers the same matrices as float32 parameters: for torch's own products."""
    for layer in named_modules(model).values():
        if isinstance(layer, _Packed):
            matrix, untyped = layer.packed.wide(), cast("Any", layer)
            untyped.__class__ = nn.Linear if isinstance(layer, nn.Linear) else nn.Embedding
            del untyped.packed
            untyped.weight = nn.Parameter(matrix)


def refuse_packed(model: nn.Module, purpose: str) -> None:
    """Refuse a model whose matrices are packed.

    Raises:
        ConfigError: they are; says how to open it instead.
    """
    if is_packed(model):
        raise ConfigError(
            f"this model's matrices are packed and no parameters, so it cannot be used for "
            f"{purpose}: open it without packed=True"
        )
