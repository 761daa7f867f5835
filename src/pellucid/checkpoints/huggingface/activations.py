"""The published names of activations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pellucid import config
from pellucid.checkpoints.huggingface.attributes import REQUIRED
from pellucid.checkpoints.huggingface.mapping import Row, choice

ACTIVATIONS: dict[str, config.Activation] = {
    "relu": "relu",
    "relu2": "relu_squared",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
    "quick_gelu": "quick_gelu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
}
#: The usual published name of each activation.
WRITTEN_ACTIVATIONS: dict[config.Activation, str] = {
    "relu": "relu",
    "relu_squared": "relu2",
    "gelu": "gelu",
    "gelu_tanh": "gelu_pytorch_tanh",
    "quick_gelu": "quick_gelu",
    "silu": "silu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
}


def activation(
    name: str,
    *paths: str,
    default: Any = REQUIRED,
    other_names: Mapping[config.Activation, str] | None = None,
) -> Row:
    """The attribute with the activation.

    Args:
        name: of the attribute.
        paths: where the activation is in the config.
        default: a published name.
        other_names: the names that this family writes instead of the usual ones.
    """
    names = {**WRITTEN_ACTIVATIONS, **(other_names or {})}
    return choice(name, ACTIVATIONS, *paths, default=default, names=names)
