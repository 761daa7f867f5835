"""torch's optimisers, without its compiler.

Comes in and goes out: what torch's take and give. It knows nothing of ours.

`torch.optim` wraps methods for the sake of optimisers that are compiled, and the wrappers load the
compiler when they are first called: a second and 70 MB at the start of every training. Nothing
compiles an optimiser here, so the methods are taken from under their wrappers.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

#: torch's own, as values without types.
_OPTIM: Any = torch.optim


def _step(optimiser: Any) -> Any:
    """An update as it was written, which leaves no graph."""
    return torch.no_grad()(inspect.unwrap(optimiser.step))


class Optimizer(torch.optim.Optimizer):
    """What optimisers of ours are made of."""

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
