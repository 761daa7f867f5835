"""The parts of a module that keeps others: the one that trains, and the one that a loop calls."""

from __future__ import annotations

from torch import nn

from pellucid.vitals.call.arguments import foreign_config


def trained_part(model: nn.Module) -> nn.Module:
    """The only child that trains, if it has all parameters that train; the model itself if not.

    A loss, a metric, or a frozen reference may be its siblings.
    """
    parts = [child for child in model.children() if _trained_ids(child)]
    is_whole = len(parts) == 1 and _trained_ids(parts[0]) == _trained_ids(model)
    return parts[0] if is_whole else model


def has_forward(model: nn.Module) -> bool:
    """Whether a module can be called: one that only keeps others cannot."""
    return getattr(model.forward, "__func__", None) is not nn.Module.forward


def _trained_ids(model: nn.Module) -> set[int]:
    return {id(parameter) for parameter in model.parameters() if parameter.requires_grad}


def called_part(model: nn.Module) -> nn.Module | None:
    """The part of transformers that a loop may call in the place of the model, or of its parts.

    Of several, the one with the most weights that train: one of two towers, or the body that a
    LightningModule keeps with its heads. None without any, and of a model of transformers.
    """
    config = foreign_config(model)
    if config is not None and getattr(model, "config", None) is config:
        return None
    parts = [child for child in model.children() if _trained_ids(child)]
    if not parts:
        return None
    part = max(parts, key=_trained_size)
    is_called = has_forward(part) and foreign_config(part) is not None
    return part if is_called else called_part(part)


def parts_beside(model: nn.Module, part: nn.Module) -> list[nn.Module]:
    """The other children that train, such as heads or a second tower.

    Args:
        model: The module that keeps them.
        part: The part, at any depth.
    """
    return [
        child
        for child in model.children()
        if _trained_ids(child) and has_forward(child) and part not in set(child.modules())
    ]


def _trained_size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
