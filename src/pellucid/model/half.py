"""Matrices that stay in half precision: a product widens one of them at a time, for a moment.

The numbers are those of the same weights in float32, bit for bit, because widening is exact. The
memory is half as large. Activations, norms and biases are in float32.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.errors import ConfigError
from pellucid.model.experts import ROUTERS
from pellucid.model.facts import EmbeddingFacts, LinearFacts
from pellucid.model.packed.layers import packed_of, refuse_packed
from pellucid.model.precision import wide
from pellucid.model.transformer import Transformer
from pellucid.rounded_weights import Rounding, round_parameter
from pellucid.typed import named_modules

#: The types of matrices that can stay.
HALF = (torch.bfloat16, torch.float16)


class HalfLinear(nn.Linear):
    """W x + b, with W in half precision and the product in the dtype of x."""

    def forward(self, input: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """The product with the widened matrix; autocast takes the matrix as it is."""
        if torch.is_autocast_enabled(input.device.type):
            return F.linear(input, self.weight, self.bias)
        return F.linear(input, self.weight.to(input.dtype), self.bias)

    def facts(self) -> LinearFacts:
        """Its size."""
        has_bias = cast("Any", self).bias is not None
        return LinearFacts(
            n_inputs=self.in_features,
            n_outputs=self.out_features,
            bias="bias" if has_bias else None,
        )


class HalfEmbedding(nn.Embedding):
    """A table in half precision, whose rows are widened when they are looked up."""

    def forward(self, input: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch features"]:
        """The widened rows."""
        return wide(super().forward(input))

    def facts(self) -> EmbeddingFacts:
        """Its size."""
        return EmbeddingFacts(n_rows=self.num_embeddings, width=self.embedding_dim)


def can_be_half(model: Transformer, name: str) -> bool:
    """Whether a parameter can stay in half precision: a linear layer's or the tokens' matrix."""
    path, _, leaf = name.rpartition(".")
    module = model.get_submodule(path)
    return leaf == "weight" and (type(module) is nn.Linear or module is model.token_embedding)


def widen_on_use(model: Transformer) -> None:
    """Let every layer whose matrix is in half precision widen it in each product.

    The layers stay where they are, with their names and tensors.
    """
    for module in named_modules(model).values():
        if type(module) is nn.Linear and module.weight.dtype in HALF:
            module.__class__ = HalfLinear
    table = model.token_embedding
    if packed_of(table) is None and table.weight.dtype in HALF:
        table.__class__ = HalfEmbedding


def learn_in_bfloat16(model: Transformer, rounding: Rounding) -> None:
    """Let the matrices of blocks learn in bfloat16; routers stay in float32.

    Args:
        model: the model, in float32.
        rounding: what is done with the last bits of an update.
    """
    for stack in (model.encoder, model.decoder):
        for name, module in ({} if stack is None else named_modules(stack)).items():
            if type(module) is nn.Linear and not name.endswith(ROUTERS):
                round_parameter(cast("nn.Parameter", module.weight), rounding)
                module.__class__ = HalfLinear


@torch.no_grad()
def halve(model: Transformer, dtype: torch.dtype) -> None:
    """Round the matrices of a model to half precision, one after another, and keep them so."""
    for name, parameter in list(model.named_parameters()):
        if can_be_half(model, name):
            path, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(path), leaf, nn.Parameter(parameter.to(dtype)))
    widen_on_use(model)


def has_half(model: Transformer) -> bool:
    """Whether a matrix is in half precision, and widened in each product."""
    modules = named_modules(model).values()
    return any(isinstance(module, HalfLinear | HalfEmbedding) for module in modules)


def refuse_half(model: Transformer, purpose: str) -> None:
    """Refuse a model whose matrices are in half precision.

    Raises:
        ConfigError: they are; says how to open it instead.
    """
    refuse_packed(model, purpose)
    if has_half(model):
        raise ConfigError(
            f"this model's matrices are in half precision, in which small updates are lost, so it "
            f"cannot be used for {purpose}: open it with weights='float32'"
        )
