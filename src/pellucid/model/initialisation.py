"""Initial weights: drawn from a generator after the model is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import nn

from pellucid.typed import named_modules

#: The standard deviation of a matrix, from its numbers of inputs and outputs.
Std = Callable[[int, int], float]


def initialise(
    model: nn.Module,
    *,
    weights: Std,
    embedding_std: float,
    scale_of: Callable[[str], float],
    generator: torch.Generator,
) -> None:
    """Draw every matrix and set every bias to zero; the gains of norms stay as they are.

    Args:
        model: the model.
        weights: the standard deviation of a matrix, from its numbers of inputs and outputs.
        embedding_std: the standard deviation of embeddings.
        scale_of: a factor of the standard deviation of a matrix, from its module's name.
        generator: draws the numbers.
    """
    drawn: set[int] = set()
    with torch.no_grad():
        for name, module in named_modules(model).items():
            if isinstance(module, nn.Embedding | nn.Linear):
                if id(module.weight) in drawn:  # of a layer that shares it
                    continue
                drawn.add(id(module.weight))
            if isinstance(module, nn.Embedding):
                module.weight.normal_(0.0, embedding_std, generator=generator)
            elif isinstance(module, nn.Linear):
                std = weights(module.in_features, module.out_features) * scale_of(name)
                module.weight.normal_(0.0, std, generator=generator)
                if module.bias is not None:  # pyright: ignore[reportUnnecessaryComparison]
                    module.bias.zero_()


def empty_embedding(rows: int, width: int) -> nn.Embedding:
    """`rows` vectors of `width` features, all zero: `initialise` draws them.

    torch's own initialisation would load its compiler on the meta device, which takes a second and
    70 MB whenever you open a saved model.
    """
    from_pretrained = cast("Any", nn.Embedding).from_pretrained
    return from_pretrained(torch.zeros(rows, width), freeze=False)
