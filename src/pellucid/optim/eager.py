"""torch's optimisers, without its compiler.

`torch.optim` wraps methods for compiled optimisers. The first call of a wrapper loads the compiler:
a second and 70 MB at the start of every training. pellucid compiles no optimiser, so these classes
use the unwrapped methods.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

#: torch's module, untyped.
_OPTIM: Any = torch.optim


def _step(optimiser: Any) -> Any:
    """The unwrapped update of an optimiser, without a graph."""
    return torch.no_grad()(inspect.unwrap(optimiser.step))


class Optimizer(torch.optim.Optimizer):
    """The base class of pellucid's optimisers."""

    add_param_group = inspect.unwrap(_OPTIM.Optimizer.add_param_group)


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam with decoupled weight decay."""

    step = _step(_OPTIM.AdamW)


class Adam(Optimizer, torch.optim.Adam):
    """Adam with coupled L2."""

    step = _step(_OPTIM.Adam)


class SGD(Optimizer, torch.optim.SGD):
    """Gradient descent with momentum and L2."""

    step = _step(_OPTIM.SGD)
