"""Residual rules: where the norm is, and how much of the stream bypasses a layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from torch import Tensor, nn

from pellucid.model.facts import ResidualFacts, ResidualPart, SandwichFacts, UnknownFacts

Layer = Callable[[Tensor], Tensor]
Rule = Callable[[Tensor, Any, Layer], Tensor]


class Sandwich(nn.Module):
    """The two norms of `sandwich_norm`: of a layer's input and of its output."""

    def __init__(self, *, before: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.before = before
        self.after = after

    def facts(self) -> SandwichFacts:
        """The names of the two norms."""
        return SandwichFacts()


def pre_norm(x: Tensor, norm: Layer, layer: Layer) -> Tensor:
    """x + f(norm(x)): through the sum, the whole gradient reaches every layer.

    Args:
        x: the residual stream. norm: of the input. layer: f.
    """
    return x + layer(norm(x))


def scaled_pre_norm(x: Tensor, norm: Layer, layer: Layer, *, multiplier: float) -> Tensor:
    """x + multiplier f(norm(x)): each layer writes less, or more, than f gives.

    Args:
        x: the residual stream. norm: of the input. layer: f. multiplier: the factor of f.
    Source:
        Hu et al. 2024, "MiniCPM", section 3.1 (depth scaling); IBM Granite 3.0, 2024.
    """
    return x + multiplier * layer(norm(x))


def post_norm(x: Tensor, norm: Layer, layer: Layer) -> Tensor:
    """norm(x + f(x)): the norm of the sum, as in the original Transformer.

    Args:
        x: the residual stream. norm: of the sum. layer: f.
    """
    return norm(x + layer(x))


def output_norm(x: Tensor, norm: Layer, layer: Layer) -> Tensor:
    """x + norm(f(x)): the norm of a layer's output, not of its input.

    Args:
        x: the residual stream. norm: of the output. layer: f.
    Source:
        OLMo Team 2024, "2 OLMo 2 Furious", section 3.2.
    """
    return x + norm(layer(x))


def sandwich_norm(x: Tensor, norm: Sandwich, layer: Layer) -> Tensor:
    """x + after(f(before(x))): norms of a layer's input and of its output.

    Args:
        x: the residual stream. norm: both norms. layer: f.
    Source:
        Ding et al. 2021, "CogView", section 2.4; Gemma Team 2024, "Gemma 2".
    """
    return x + norm.after(layer(norm.before(x)))


def deep_norm(x: Tensor, norm: Layer, layer: Layer, *, alpha: float) -> Tensor:
    """norm(alpha x + f(x)): post-norm that trains with hundreds of layers.

    Args:
        x: the residual stream. norm: of the sum. layer: f. alpha: the factor of the stream.
    Source:
        Wang et al. 2022, "DeepNet: Scaling Transformers to 1,000 Layers", eq. 4.
    """
    return norm(alpha * x + layer(x))


def no_residual(x: Tensor, norm: Layer, layer: Layer) -> Tensor:
    """f(norm(x)): nothing bypasses the layer, so gradients shrink or grow with the depth.

    Args:
        x: the residual stream. norm: of the input. layer: f.
    """
    return layer(norm(x))


_FACTS: tuple[tuple[Rule, ResidualFacts], ...] = (
    (pre_norm, ResidualFacts(norm="input")),
    (post_norm, ResidualFacts(norm="sum")),
    (output_norm, ResidualFacts(norm="output")),
    (sandwich_norm, ResidualFacts(norm="sandwich")),
    (no_residual, ResidualFacts(norm="input", carried=0.0)),
)


def residual_facts(rule: Rule) -> ResidualPart:
    """The place of the norm in a rule, and how much of the stream bypasses the layer."""
    scaled = cast("Any", rule if isinstance(rule, partial) else None)
    if scaled is not None and scaled.func is deep_norm and set(scaled.keywords) == {"alpha"}:
        return ResidualFacts(norm="sum", carried=scaled.keywords["alpha"])
    if scaled is not None and scaled.func is scaled_pre_norm:
        return ResidualFacts(norm="input", multiplier=scaled.keywords["multiplier"])
    for stated, facts in _FACTS:
        if rule is stated:
            return facts
    untyped = cast("Any", rule)
    name: str = getattr(untyped, "__name__", type(untyped).__name__)
    return UnknownFacts(part=name, reason="it is a residual rule that states no facts")
