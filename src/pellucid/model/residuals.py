"""Where the norm stands and whether the input is carried past a layer: rules, a line each.

Comes in: a state, a norm, a layer. Goes out: the next state. They hold no parameters.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Layer = Callable[[Tensor], Tensor]
Rule = Callable[[Tensor, Layer, Layer], Tensor]


def pre_norm(x: Tensor, norm: Layer, layer: Layer) -> Tensor:
    """x + f(norm(x)): the gradient reaches every layer undivided through the sum."""
    return x + layer(norm(x))


def post_norm(x: Tensor, norm: Layer, layer: Layer) -> Tensor:
    """norm(x + f(x)), as in the original Transformer: the sum itself is normalised."""
    return norm(x + layer(x))


def no_residual(x: Tensor, norm: Layer, layer: Layer) -> Tensor:
    """f(norm(x)): nothing is carried past the layer; gradients shrink or grow with the depth."""
    return layer(norm(x))
