"""What a model shows before its first update: equal units, trained gains, slow rotary positions."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

#: A layer has so many units at least; so many of them are compared, by so many numbers.
_FEWEST, _UNITS, _NUMBERS = 8, 8, 64
#: The name that rotary parts give their angles for each place.
_NAME = "inv_freq"


def equal_units(model: nn.Module) -> float | None:
    """The share of linear layers whose units all have the same weights; None without layers.

    A layer of zeros does not count: it opens a residual path later.

    Args:
        model: As it is before its first update.
    """
    weights = [
        module.weight.detach()
        for module in model.modules()
        if isinstance(module, nn.Linear) and min(module.weight.shape) >= _FEWEST
    ]
    readable = [weight for weight in weights if not weight.is_meta and type(weight) is Tensor]
    if not readable:
        return None
    return sum(map(_is_alike, readable)) / len(readable)


def _is_alike(weight: Tensor) -> bool:
    part = weight[:_UNITS, :_NUMBERS]
    return bool((part == part[:1]).all()) and bool(part.any())


def trained_gains(model: nn.Module) -> float | None:
    """The share of norms whose gains are no constant: they were trained; None without norms.

    Gains begin as one number, nearly always 1. An update moves each by its own gradient.

    Args:
        model: As it is before its first update.

    Source:
        Ba et al. 2016 (1607.06450), supplement: "we initialise the gain to 1"
    """
    gains = [
        parameter.detach()
        for module in model.modules()
        if "norm" in type(module).__name__.lower()
        for name, parameter in module.named_parameters(recurse=False)
        if name == "weight" and not is_lazy(parameter) and not parameter.is_meta
    ]
    # a part of a sharded gain is no plain tensor
    readable = [g for g in gains if type(g) is Tensor and g.ndim == 1 and len(g) > 1]
    if not readable:
        return None
    return sum(bool((gain != gain[0]).any()) for gain in readable) / len(readable)


def longest_wavelength(model: nn.Module, time: int) -> float | None:
    """The longest wavelength of rotary positions, of a row's length; None without known ones.

    Angles of w for each place come round after 2 pi / w places. The least of the modules.

    Args:
        model: Its modules keep the angles as `inv_freq`, as those of transformers do.
        time: The places of a row.

    Source:
        Su et al. 2021, RoFormer, section 3.3.
    """
    frequencies: list[Any] = [getattr(module, _NAME, None) for module in model.modules()]
    slowest = [
        float(values.min())
        for values in frequencies
        if isinstance(values, Tensor) and values.ndim == 1 and len(values) > 1
    ]
    lengths = [2 * math.pi / (value * time) for value in slowest if value > 0]
    return min(lengths, default=None)
