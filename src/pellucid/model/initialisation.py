"""How a model's weights start: tables of zeros while it is built, then drawn from a generator."""

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
    """Draw every matrix; zero every bias; leave the norms' gains as they are.

    `scale_of` a module's name multiplies the standard deviation of its matrix.
    """
    with torch.no_grad():
        for name, module in named_modules(model).items():
            if isinstance(module, nn.Embedding):
                module.weight.normal_(0.0, embedding_std, generator=generator)
            elif isinstance(module, nn.Linear):
                std = weights(module.in_features, module.out_features) * scale_of(name)
                module.weight.normal_(0.0, std, generator=generator)
                if module.bias is not None:  # pyright: ignore[reportUnnecessaryComparison]
                    module.bias.zero_()


def empty_embedding(rows: int, width: int) -> nn.Embedding:
    """`rows` vectors of `width` features, all zero: `initialise` draws them.

    torch would draw them, too; on the meta device by a way that loads its compiler, which takes a
    second and 70 MB whenever a saved model is opened.
    """
    from_pretrained = cast("Any", nn.Embedding).from_pretrained
    return from_pretrained(torch.zeros(rows, width), freeze=False)
