"""Weights in fewer bits: a model's matrices rounded to bfloat16, or to 8 or 4 bits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import get_args

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pellucid.errors import ConfigError, PellucidError
from pellucid.model.experts import ROUTERS
from pellucid.model.half import halve, has_half
from pellucid.model.packed.room import Room
from pellucid.model.precision import Weights
from pellucid.model.transformer import Transformer
from pellucid.typed import named_modules

#: The types that compiled code reads in place of float32.
PACKED: tuple[Weights, ...] = ("bfloat16", "int8", "int4")
_INTEGERS = ("int8", "int4")


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
    if weights in ("float32", "stored") or (weights not in _INTEGERS and has_half(model)):
        return
    kinds = matrices(model, weights)
    if weights == "float16":
        halve(model, torch.float16)
        return
    room = Room({name: matrix_shape(model.get_parameter(name)) for name in kinds}, kinds)
    for name in kinds:
        matrix = model.get_parameter(name)
        rounded = room.fill(name, partial(_rows, matrix))
        matrix.copy_(rounded.wide())
        model.narrow[name] = rounded._replace(version=matrix._version)


def check_weights(weights: str) -> None:
    """Refuse a type that matrices cannot have.

    Raises:
        ConfigError: names those they can have.
    """
    if weights not in get_args(Weights):
        raise ConfigError(
            f"weights was {weights!r}; it has to be one of {', '.join(get_args(Weights))}"
        )


def matrices(model: Transformer, weights: Weights) -> dict[str, Weights]:
    """The names of the matrices that are rounded, in order, and the type of each.

    With 4 bits the matrix of the logits keeps 8: its errors go straight into the probabilities.

    Raises:
        PellucidError: a matrix is computed from other parameters, as by weight norm.
    """
    kinds: dict[str, Weights] = {}
    for layer in _layers(model):
        is_head = layer in ("token_embedding", "head")
        kinds[f"{layer}.weight"] = "int8" if weights == "int4" and is_head else weights
    return kinds


def matrix_shape(matrix: Tensor) -> tuple[int, int]:
    """Rows and columns."""
    return matrix.shape[0], matrix.shape[1]


def _rows(matrix: Tensor, first: int, last: int) -> Tensor:
    return matrix[first:last]


def _layers(model: Transformer) -> Iterator[str]:
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
