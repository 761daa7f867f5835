"""Weights in fewer bits: the matrices of a model rounded to what bfloat16 or eight bits can say.

Comes in: a model. Goes out: the same model, its matrices rounded, and beside them the same numbers
in their few bits, for whoever reads them from memory faster so. It does not know who that is.
"""

from __future__ import annotations

from typing import get_args

import torch
from torch import nn

from pellucid.errors import ConfigError
from pellucid.model.narrowed import Weights, narrowed
from pellucid.model.transformer import Transformer
from pellucid.typed import named_modules


@torch.no_grad()
def narrow(model: Transformer, weights: Weights) -> None:
    """Round the matrices of linear layers, and the embedding where it is the head, in place.

    Norms, biases, vectors of positions and an embedding that is looked up alone stay as they are.
    The weights before are gone. "float32" changes nothing.

    Raises:
        ConfigError: `weights` is none of the three.
    """
    if weights not in get_args(Weights):
        raise ConfigError(
            f"weights was {weights!r}; it has to be one of {', '.join(get_args(Weights))}"
        )
    if weights == "float32":
        return
    for name, module in named_modules(model).items():
        is_head = module is model.token_embedding and model.has_head and model.head is None
        if is_head or isinstance(module, nn.Linear):
            weight = f"{name}.weight"
            model.narrow[weight] = narrowed(model.get_parameter(weight), weights)
    for name, kept in model.narrow.items():
        matrix = model.get_parameter(name)
        matrix.copy_(kept.wide())
        model.narrow[name] = kept._replace(version=matrix._version)
