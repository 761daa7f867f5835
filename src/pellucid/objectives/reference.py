"""A model that predicts but is not trained: a teacher, or the reference of a policy."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import nn

from pellucid.typed import named_modules

#: From the trained model to the model it is compared with, valid within the context: a frozen copy,
#: or the model itself without its adapters.
Reference = Callable[[Any], AbstractContextManager[Any]]


def frozen_reference(copy: Any) -> Reference:
    """A reference that is a separate model, independent of the trained one."""

    @contextmanager
    def reference(model: Any) -> Generator[Any]:
        del model
        yield copy

    return reference


@contextmanager
def open_reference(reference: Reference, model: Any) -> Generator[Any]:
    """The model that `reference` makes of the trained one, in evaluation mode."""
    with reference(model) as reference_model, evaluating(reference_model):
        yield reference_model


@contextmanager
def evaluating(model: Any) -> Generator[None]:
    """Put the model in evaluation mode without gradients, and restore its modes at the end."""
    modules = list(named_modules(model).values()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]
    # Autocast caches narrow copies of weights. A copy made here has no gradient, and the trained
    # forward pass must not reuse it: the weights may be the same.
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
