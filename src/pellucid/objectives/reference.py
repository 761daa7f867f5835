"""A model that predicts and is not trained: a teacher, or the reference of a policy."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn

from pellucid.typed import named_modules

#: From the trained model to the model it is compared with, which lives as long as the context.
#: A frozen copy is one way; the model itself without its adapters is another.
Reference = Callable[[Any], AbstractContextManager[Any]]


def frozen_reference(copy: Any) -> Reference:
    """The reference that is a model of its own, whatever is trained."""

    @contextmanager
    def reference(model: Any) -> Generator[Any]:
        del model
        yield copy

    return reference


@contextmanager
def open_reference(reference: Reference, model: Any) -> Generator[Any]:
    """The model that `reference` makes of the trained one, at rest."""
    with reference(model) as reference_model, evaluating(reference_model):
        yield reference_model


@contextmanager
def evaluating(model: Any) -> Generator[None]:
    """Within it the model is as for use, and remembers nothing; after it, as it was."""
    modules = list(named_modules(model).values()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]
    # Autocast keeps narrow copies of weights. One that is made here has no gradient, and must not
    # be taken by the forward pass that is trained: the weights may be the same.
    cached = torch.is_autocast_cache_enabled()
    for module in modules:
        module.training = False
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_autocast_cache_enabled(cached)
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
