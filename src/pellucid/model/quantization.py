"""Weights in fewer bits: a model's matrices rounded to bfloat16, or to 8 or 4 bits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import get_args

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.utils import parametrize

from pellucid.errors import ConfigError, PellucidError
from pellucid.model.experts import ROUTERS
from pellucid.model.half import halve, has_half
from pellucid.model.packed.calibration import calibrated, moment_groups, second_moments
from pellucid.model.packed.room import Room
from pellucid.model.precision import Weights
from pellucid.model.transformer import Transformer
from pellucid.typed import named_modules

#: The types that compiled code reads in place of float32.
PACKED: tuple[Weights, ...] = ("bfloat16", "int8", "int4")
_INTEGERS = ("int8", "int4")


def narrow(
    model: Transformer,
    weights: Weights,
    *,
    calibration: Int[Tensor, "windows time"] | None = None,
) -> None:
    """Round the matrices of linear layers, and an embedding that is also the head, in place.

    Norms, biases, routers, vectors of positions and other embeddings stay as they are. The original
    weights are lost. "float32" and "stored" change nothing, nor does "bfloat16" if the matrices are
    in half precision already. "float16" halves the table of tokens in any case.

    Args:
        model: the model, in evaluation mode if a calibration text is given.
        weights: the type.
        calibration: token ids of a text, for "int4": see `calibrated`.

    Raises:
        ConfigError: `weights` is not one of the types, or takes no calibration text.
        PellucidError: a matrix is computed from other parameters, as by weight norm.
    """
    check_weights(weights)
    if calibration is not None:
        refuse_calibration(weights)
    if weights in ("float32", "stored") or (weights not in _INTEGERS and has_half(model)):
        return
    if weights == "float16":
        matrices(model, weights)  # for its refusal
        halve(model, torch.float16)
        return
    round_matrices(model, weights, calibration)


@torch.no_grad()
def round_matrices(
    model: Transformer, weights: Weights, calibration: Int[Tensor, "windows time"] | None
) -> Room:
    """Round the matrices of a model in place; returns the memory that has them in few bits.

    A layer that reads no token of the calibration text, such as an expert, is rounded without it.

    Raises:
        PellucidError: a matrix is computed from other parameters, as by weight norm.
    """
    kinds = matrices(model, weights)
    room = Room({name: matrix_shape(model.get_parameter(name)) for name in kinds}, kinds)
    for group in moment_groups({name: room.shape(name)[1] for name in kinds}):
        in_4_bits = [name for name in group if kinds[name] == "int4"]
        moments = {} if calibration is None else second_moments(model, in_4_bits, calibration)
        for name in group:
            matrix = model.get_parameter(name)
            if name in moments:
                rounded = room.put(name, calibrated(matrix, moments[name]))
            else:
                rounded = room.fill(name, partial(_rows, matrix))
            matrix.copy_(rounded.wide())
            model.narrow[name] = rounded._replace(version=matrix._version)
    return room


def refuse_calibration(weights: str) -> None:
    """Refuse a calibration text for a type that makes nothing of it.

    Raises:
        ConfigError: the type is not "int4".
    """
    if weights != "int4":
        raise ConfigError(
            f"a calibration text is for weights int4, and weights was {weights!r}: the other types "
            "round each weight to its nearest, whatever the text; leave it out, or choose int4"
        )


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
