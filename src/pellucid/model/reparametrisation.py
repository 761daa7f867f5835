"""Linear layers whose matrix is a function of other parameters."""

from __future__ import annotations

from typing import Any, cast

from torch import nn
from torch.nn.utils import parametrizations

from pellucid.typed import named_modules


def weight_norm(stack: nn.Module) -> None:
    """W = g v / |v|, row by row: separate parameters for the length and direction of each row.

    Args:
        stack: the module whose linear layers change, in place.

    Source:
        Salimans and Kingma 2016, "Weight Normalization", eq. 2.
    See also:
        `pellucid.maths.weight_norm`.
    """
    for layer in _linear_layers(stack):
        cast("Any", parametrizations).weight_norm(layer, dim=0)


def spectral_norm(stack: nn.Module, *, power_iterations: int) -> None:
    """W / sigma(W): power iteration in every update keeps the largest singular value at 1.

    Args:
        stack: the module whose linear layers change, in place.
        power_iterations: per update.

    Source:
        Miyato et al. 2018, "Spectral Normalization for Generative Adversarial Networks", eq. 8
        and algorithm 1.
    See also:
        `pellucid.maths.spectral_norm`.
    """
    for layer in _linear_layers(stack):
        cast("Any", parametrizations).spectral_norm(layer, n_power_iterations=power_iterations)


def _linear_layers(stack: nn.Module) -> list[nn.Linear]:
    return [module for module in named_modules(stack).values() if isinstance(module, nn.Linear)]
