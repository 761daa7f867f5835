"""Layers of one token alone: feed-forward layers, and the transform before a language head."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.model.facts import (
    ActivationName,
    ClampedFeedForwardFacts,
    FeedForwardFacts,
    HeadTransformFacts,
)
from pellucid.model.fused_activations import in_one_pass
from pellucid.model.precision import for_products

Activate = Callable[[Tensor], Tensor]


def relu_squared(x: Tensor) -> Tensor:
    """max(x, 0)^2. Source: So et al. 2021, "Primer", section 3."""
    fused = in_one_pass(x, "relu_squared")
    return F.relu(x).square() if fused is None else fused


def gelu(x: Tensor) -> Tensor:
    """x Phi(x), with the error function. Source: Hendrycks and Gimpel 2016, section 2."""
    return F.gelu(x)


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU as GPT-2 computes it, with tanh for Phi."""
    fused = in_one_pass(x, "gelu_tanh")
    return F.gelu(x, approximate="tanh") if fused is None else fused


def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return torch.relu(x)


def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return F.silu(x)


def quick_gelu(x: Tensor) -> Tensor:
    """x sigmoid(1.702 x), as CLIP computes it. Source: Hendrycks and Gimpel 2016, section 2."""
    return x * torch.sigmoid(1.702 * x)


_NAMES: dict[Activate, ActivationName] = {
    relu: "relu",
    relu_squared: "relu_squared",
    gelu: "gelu",
    gelu_tanh: "gelu_tanh",
    quick_gelu: "quick_gelu",
    silu: "silu",
    torch.sigmoid: "sigmoid",
    torch.tanh: "tanh",
}


def activation_name(activation: Activate) -> ActivationName | None:
    """The name of one of pellucid's activations; None for a function of your own."""
    return _NAMES.get(activation)


class MLP(nn.Module):
    """down(activation(up(x)))."""

    def __init__(self, *, d_model: int, d_ff: int, activation: Activate, bias: bool) -> None:
        super().__init__()
        self.activation = activation
        self.up = nn.Linear(d_model, d_ff, bias=bias)
        self.down = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """The layer's output for each token."""
        return self.down(self.activation(self.up(x)))

    def facts(self) -> FeedForwardFacts:
        """Its width and activation."""
        return FeedForwardFacts(
            d_ff=self.up.out_features, activation=activation_name(self.activation)
        )


class GatedMLP(nn.Module):
    """down(activation(gate(x)) * up(x)); with SiLU this is SwiGLU.

    Source:
        Shazeer 2020, "GLU Variants Improve Transformer", eq. 6.
    """

    def __init__(self, *, d_model: int, d_ff: int, activation: Activate, bias: bool) -> None:
        super().__init__()
        self.activation = activation
        self.gate = nn.Linear(d_model, d_ff, bias=bias)
        self.up = nn.Linear(d_model, d_ff, bias=bias)
        self.down = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """The layer's output for each token."""
        x = for_products(x)
        return self.down(self.activation(self.gate(x)) * self.up(x))

    def facts(self) -> FeedForwardFacts:
        """Its width, its activation, and that it has a gate."""
        return FeedForwardFacts(
            d_ff=self.up.out_features, activation=activation_name(self.activation), gate="gate"
        )


class ClampedGatedMLP(nn.Module):
    """down((up(x) + 1) g sigmoid(slope g)), g = gate(x), where gate and up are clamped at a limit.

    Source:
        OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", section 2.2, and its released code.
    See also:
        `pellucid.maths.clamped_swiglu`.
    """

    def __init__(self, *, d_model: int, d_ff: int, bias: bool, limit: float, slope: float) -> None:
        super().__init__()
        self.limit, self.slope = limit, slope
        self.gate = nn.Linear(d_model, d_ff, bias=bias)
        self.up = nn.Linear(d_model, d_ff, bias=bias)
        self.down = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """The layer's output for each token."""
        x = for_products(x)
        return self.down(self.activation(self.gate(x), self.up(x)))

    def activation(
        self, gate: Float[Tensor, "*batch d_ff"], up: Float[Tensor, "*batch d_ff"]
    ) -> Float[Tensor, "*batch d_ff"]:
        """The units."""
        gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        return (up + 1) * gate * torch.sigmoid(self.slope * gate)

    def facts(self) -> ClampedFeedForwardFacts:
        """Its width, its limit and its slope."""
        return ClampedFeedForwardFacts(
            d_ff=self.up.out_features, limit=self.limit, slope=self.slope
        )


class HeadTransform(nn.Module):
    """norm(activation(dense(x))), from d_model to `width` features; d_model by default.

    Source:
        Devlin et al. 2018, "BERT", its released code (the masked-LM head).
    """

    def __init__(
        self,
        *,
        d_model: int,
        activation: Activate | None,
        norm: nn.Module | None,
        width: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model if width is None else width, bias=bias)
        self.activation = activation
        self.norm = norm or nn.Identity()

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch width"]:
        """The states that the head's matrix reads."""
        x = self.dense(x)
        return self.norm(x if self.activation is None else self.activation(x))

    def facts(self) -> HeadTransformFacts:
        """Its width, its activation, and the names of its parts."""
        activation = self.activation
        return HeadTransformFacts(
            width=self.dense.out_features,
            activation="identity" if activation is None else activation_name(activation),
        )
