"""The layer that transforms each token alone: one frozen class per kind of feed-forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Count

Activation = Literal["relu", "relu_squared", "gelu", "gelu_tanh", "silu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MLP(Checked):
    """down(activation(up(x))): `d_ff` units, each written back to the stream.

    Source: Vaswani et al. 2017, equation 2.
    """

    d_ff: Count
    activation: Activation
    bias: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedMLP(Checked):
    """down(activation(gate(x)) * up(x)); with SiLU this is SwiGLU.

    Source: Shazeer 2020, equation 6.
    """

    d_ff: Count
    activation: Activation
    bias: bool


FeedForward = MLP | GatedMLP
