"""Which module of what a user passes is watched."""

from __future__ import annotations

from typing import Any

from torch import nn


def called_module(model: nn.Module) -> nn.Module:
    """The module that each call of a model reaches, also one through `model.module`."""
    inner: Any = model
    return inner.module if type(model).__name__ == "DistributedDataParallel" else model


def trained_part(model: nn.Module) -> nn.Module:
    """The only child that trains, if it has all parameters that train; the model itself if not.

    Beside it there may be a loss, a metric, or a frozen reference.
    """
    parts = [child for child in model.children() if _trained_ids(child)]
    is_whole = len(parts) == 1 and _trained_ids(parts[0]) == _trained_ids(model)
    return parts[0] if is_whole else model


def has_forward(model: nn.Module) -> bool:
    """Whether a module can be called: one that only keeps others cannot."""
    return type(model).forward is not nn.Module.forward


def _trained_ids(model: nn.Module) -> set[int]:
    return {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
