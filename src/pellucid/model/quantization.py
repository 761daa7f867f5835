"""Weights in fewer bits: a model's matrices rounded to bfloat16 or int8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import torch
from torch import nn
from torch.nn.utils import parametrize

from pellucid.errors import ConfigError, PellucidError
from pellucid.model.experts import ROUTERS
from pellucid.model.half import halve, has_half
from pellucid.model.precision import Narrow, Weights, narrowed
from pellucid.model.transformer import Transformer
from pellucid.native import huge_buffer
from pellucid.typed import named_modules

#: Bytes of a cache line, at which each matrix starts.
_LINE = 64


@torch.no_grad()
def narrow(model: Transformer, weights: Weights) -> None:
    """Round the matrices of linear layers, and an embedding that is also the head, in place.

    Norms, biases, routers, vectors of positions and other embeddings stay as they are. The original
    weights are lost. "float32" and "stored" change nothing, nor does "bfloat16" if the matrices are
    in half precision already. "float16" halves the table of tokens in any case.

    Raises:
        ConfigError: `weights` is not one of the types.
        PellucidError: a matrix is computed from other parameters, as by weight norm.
    """
    check_weights(weights)
    if weights in ("float32", "stored") or (weights != "int8" and has_half(model)):
        return
    if weights == "float16":
        list(_matrices(model))  # for its refusal
        halve(model, torch.float16)
        return
    names = [f"{name}.weight" for name in _matrices(model)]
    matrices = {name: model.get_parameter(name) for name in names}
    width = 2 if weights == "bfloat16" else 1
    # one after the other, in the order in which they are read
    sizes = [-(-matrix.numel() * width // _LINE) * _LINE for matrix in matrices.values()]
    room: Any = torch.frombuffer(huge_buffer(sum(sizes)), dtype=torch.uint8)
    for (name, matrix), part in zip(matrices.items(), room.split(sizes), strict=True):
        rounded = narrowed(matrix, weights)
        values = part[: matrix.numel() * width].view(rounded.values.dtype).view_as(matrix)
        matrix.copy_(rounded.wide())
        model.narrow[name] = Narrow(values.copy_(rounded.values), rounded.scales, matrix._version)


def check_weights(weights: str) -> None:
    """Refuse a type that matrices cannot have.

    Raises:
        ConfigError: names those they can have.
    """
    if weights not in get_args(Weights):
        raise ConfigError(
            f"weights was {weights!r}; it has to be one of {', '.join(get_args(Weights))}"
        )


def _matrices(model: Transformer) -> Iterator[str]:
    tied = model.output_head.no_token_logits is None and model.head is None
    for name, module in named_modules(model).items():
        if parametrize.is_parametrized(module):
            raise PellucidError(
                f"{name} computes its matrix from other parameters (weight norm, spectral norm), "
                "so there is none to round: leave weights at float32"
            )
        if name.endswith(ROUTERS):
            continue  # rounding would change whole choices, and they are small
        if isinstance(module, nn.Linear) or (tied and module is model.token_embedding):
            yield name
