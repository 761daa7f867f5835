"""What each token makes of itself: one frozen class per kind of feed-forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import at_least

Activation = Literal["relu", "relu_squared", "gelu", "gelu_tanh", "silu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MLP:
    """down(activation(up(x))): `d_ff` units, each written back to the stream.

    Source: Vaswani et al. 2017, equation 2.
    """

    d_ff: int
    activation: Activation
    bias: bool

    def __post_init__(self) -> None:
        at_least("d_ff", self.d_ff, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedMLP:
    """down(activation(gate(x)) * up(x)); with SiLU this is SwiGLU.

    Source: Shazeer 2020, equation 6.
    """

    d_ff: int
    activation: Activation
    bias: bool

    def __post_init__(self) -> None:
        at_least("d_ff", self.d_ff, 1)


FeedForward = MLP | GatedMLP
