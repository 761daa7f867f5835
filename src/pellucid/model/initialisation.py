"""How a model's weights start.

Comes in: a built model and plain numbers. Goes out: the same model, its weights drawn from a given
generator. It does not know the data or the optimiser.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from pellucid.model.transformer import Transformer
from pellucid.typed import named_modules

#: The standard deviation of a matrix, from its numbers of inputs and outputs.
Std = Callable[[int, int], float]


def initialise(
    model: Transformer,
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
