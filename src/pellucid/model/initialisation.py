"""Initial weights: drawn from a generator after the model is built."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from pellucid.typed import named_modules

#: The standard deviation of a matrix, from its numbers of inputs and outputs.
Std = Callable[[int, int], float]
#: Gives a whole tensor its values, in place.
Fill = Callable[[Tensor], object]
#: Fills a parameter: the whole of it, or what this process holds of it.
SetValues = Callable[[Tensor, Fill], None]


def set_whole(parameter: Tensor, fill: Fill) -> None:
    """Fill a parameter that this process holds as a whole."""
    fill(parameter)


def initialise(
    model: nn.Module,
    *,
    weights: Std,
    embedding_std: float,
    scale_of: Callable[[str], float],
    generator: torch.Generator,
    set_values: SetValues = set_whole,
) -> None:
    """Draw every matrix and set every bias to zero; the gains of norms stay as they are.

    Args:
        model: the model.
        weights: the standard deviation of a matrix, from its numbers of inputs and outputs.
        embedding_std: the standard deviation of embeddings.
        scale_of: a factor of the standard deviation of a matrix, from its module's name.
        generator: draws the numbers, one whole tensor after the other.
        set_values: fills each parameter.
    """
    drawn: set[int] = set()

    def draw(parameter: Tensor, std: float) -> None:
        set_values(parameter, lambda tensor: tensor.normal_(0.0, std, generator=generator))

    with torch.no_grad():
        for name, module in named_modules(model).items():
            if isinstance(module, nn.Embedding | nn.Linear):
                if id(module.weight) in drawn:  # of a layer that shares it
                    continue
                drawn.add(id(module.weight))
            if isinstance(module, nn.Embedding):
                draw(module.weight, embedding_std)
            elif isinstance(module, nn.Linear):
                std = weights(module.in_features, module.out_features) * scale_of(name)
                draw(module.weight, std)
                if module.bias is not None:  # pyright: ignore[reportUnnecessaryComparison]
                    set_values(module.bias, Tensor.zero_)


@contextmanager
def matrices_on_meta() -> Generator[None]:
    """Within it, new linear layers and embeddings have no memory; all other parts are real."""

    def without_memory(
        module: nn.Module, name: str, parameter: nn.Parameter | None
    ) -> nn.Parameter | None:
        is_matrix = isinstance(module, nn.Linear | nn.Embedding)
        if parameter is None or parameter.is_meta or not is_matrix:
            return parameter
        return nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)

    hook = cast("Any", torch_module).register_module_parameter_registration_hook(without_memory)
    try:
        yield
    finally:
        hook.remove()


def empty_embedding(rows: int, width: int) -> nn.Embedding:
    """`rows` vectors of `width` features, all zero: `initialise` draws them.

    torch's own initialisation would load its compiler on the meta device, which takes a second and
    70 MB whenever you open a saved model.
    """
    from_pretrained = cast("Any", nn.Embedding).from_pretrained
    return from_pretrained(torch.zeros(rows, width), freeze=False)
