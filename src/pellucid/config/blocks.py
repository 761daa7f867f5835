"""The parts of a block: its feed-forward layer, and its residual path with the place of the norm.

One frozen class per kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Count, Positive, check_turns

Activation = Literal[
    "relu", "relu_squared", "gelu", "gelu_tanh", "quick_gelu", "silu", "sigmoid", "tanh"
]


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


OneFeedForward = MLP | GatedMLP


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternatingFeedForward(Checked):
    """The layers have these kinds of feed-forward in turn.

    With `first`, the first layers have those, one each, and the turns begin after them: for example
    wide dense layers before narrower ones.
    """

    layers: tuple[OneFeedForward, ...]
    first: tuple[OneFeedForward, ...] = ()

    def _check(self) -> None:
        check_turns(self, self.layers, self.first)


FeedForward = OneFeedForward | AlternatingFeedForward


@dataclass(frozen=True, slots=True, kw_only=True)
class PreNorm(Checked):
    """x + multiplier f(norm(x)): the residual stream itself is never normalised.

    `multiplier` (default: 1): Granite's residual_multiplier, MiniCPM's scale_depth /
    sqrt(n_layers).
    """

    multiplier: Positive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostNorm:
    """norm(x + f(x)), as in the original Transformer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputNorm:
    """x + norm(f(x)), as in OLMo 2: the norm follows the layer instead of preceding it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandwichNorm:
    """x + norm(f(norm(x))), as in Gemma 2: one norm before the layer and one after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepNorm(Checked):
    """norm(alpha x + f(x)); values, outputs and feed-forward start `beta` times as large."""

    alpha: Positive
    beta: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """x + attention(norm(x)) + feed_forward(norm'(x)), as in GPT-NeoX: both read the same x.

    With `shared_norm` both read norm(x), as in GPT-J, Phi, Falcon and Cohere.
    """

    shared_norm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResidual:
    """f(norm(x)): no residual path. Use it to see why models have one."""


Residual = PreNorm | PostNorm | OutputNorm | SandwichNorm | DeepNorm | Parallel | NoResidual
