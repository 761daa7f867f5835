"""Which share of the weights is frozen, or has next to no learning rate."""

from __future__ import annotations

from typing import Any

from torch import nn

from pellucid.diagnosis.finding import limit
from pellucid.vitals import number_in


def frozen_share(model: nn.Module) -> float:
    """The share of a model's weights that are frozen.

    A teacher or a slow copy beside the model, with names like those of what is trained, is no part
    of it.
    """
    named = [(name.partition(".")[2], parameter) for name, parameter in model.named_parameters()]
    trained = {name for name, parameter in named if parameter.requires_grad}
    counted = [p for name, p in named if p.requires_grad or name not in trained]
    n_frozen = sum(parameter.numel() for parameter in counted if not parameter.requires_grad)
    return n_frozen / max(1, sum(parameter.numel() for parameter in counted))


def is_body_frozen(model: nn.Module) -> bool:
    """Whether no matrix of any block is trained: all that learns lies before or behind them.

    Blocks stand in lists, so their weights have a number in their names. Adapters train there.
    """
    of_blocks = [
        parameter
        for name, parameter in model.named_parameters()
        if parameter.ndim > 1 and any(part.isdigit() for part in name.split("."))
    ]
    return bool(of_blocks) and not any(parameter.requires_grad for parameter in of_blocks)


def slow_share(optimiser: Any) -> float:
    """The share of an optimiser's weights whose rate is next to nothing of its highest."""
    sizes = [
        (number_in(group, "lr") or 0.0, sum(parameter.numel() for parameter in group["params"]))
        for group in optimiser.param_groups
    ]
    least = limit("OPT007", "group") * max((rate for rate, _ in sizes), default=0.0)
    n_slow = sum(size for rate, size in sizes if rate < least)
    return n_slow / max(1, sum(size for _, size in sizes))
