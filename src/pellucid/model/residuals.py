"""Where the norm stands and what is carried past a layer: rules, a line each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from torch import Tensor, nn

from pellucid.model.facts import ResidualFacts, ResidualPart, SandwichFacts, UnknownFacts

Layer = Callable[[Tensor], Tensor]
Rule = Callable[[Tensor, Any, Layer], Tensor]


class Sandwich(nn.Module):
    """The two norms of `sandwich_norm`: of what a layer reads, and of what it writes."""

    def __init__(self, *, before: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.before = before
        self.after = after

    def facts(self) -> SandwichFacts:
        """The names of the two norms."""
        return SandwichFacts()


def pre_norm(x: Tensor, norm: Layer, layer: Layer) -> Tensor:
    """x + f(norm(x)): the gradient reaches every layer undivided through the sum."""
    return x + layer(norm(x))


def post_norm(x: Tensor, norm: Layer, layer: Layer) -> Tensor:
    """norm(x + f(x)), as in the original Transformer: the sum itself is normalised."""
    return norm(x + layer(x))


def output_norm(x: Tensor, norm: Layer, layer: Layer) -> Tensor:
    """x + norm(f(x)): what a layer writes is normalised, not what it reads.

    Source:
        OLMo Team 2024, "2 OLMo 2 Furious", section 3.2.
    """
    return x + norm(layer(x))


def sandwich_norm(x: Tensor, norm: Sandwich, layer: Layer) -> Tensor:
    """x + after(f(before(x))): both what a layer reads and what it writes are normalised.

    Source:
        Ding et al. 2021, "CogView", section 2.4; Gemma Team 2024, "Gemma 2".
    """
    return x + norm.after(layer(norm.before(x)))


def deep_norm(x: Tensor, norm: Layer, layer: Layer, *, alpha: float) -> Tensor:
    """norm(alpha x + f(x)): post-norm that stays trainable over hundreds of layers.

    Source:
        Wang et al. 2022, "DeepNet: Scaling Transformers to 1,000 Layers", eq. 4.
    """
    return norm(alpha * x + layer(x))


def no_residual(x: Tensor, norm: Layer, layer: Layer) -> Tensor:
    """f(norm(x)): nothing is carried past the layer; gradients shrink or grow with the depth."""
    return layer(norm(x))


_FACTS: tuple[tuple[Rule, ResidualFacts], ...] = (
    (pre_norm, ResidualFacts(norm="input")),
    (post_norm, ResidualFacts(norm="sum")),
    (output_norm, ResidualFacts(norm="output")),
    (sandwich_norm, ResidualFacts(norm="sandwich")),
    (no_residual, ResidualFacts(norm="input", carried=0.0)),
)


def residual_facts(rule: Rule) -> ResidualPart:
    """Where the norm stands under a rule, and how much of the stream goes past the layer."""
    deep = cast("Any", rule if isinstance(rule, partial) else None)
    if deep is not None and deep.func is deep_norm and set(deep.keywords) == {"alpha"}:
        return ResidualFacts(norm="sum", carried=deep.keywords["alpha"])
    for stated, facts in _FACTS:
        if rule is stated:
            return facts
    named = cast("Any", rule)
    name: str = getattr(named, "__name__", type(named).__name__)
    return UnknownFacts(part=name, reason="it is a residual rule that states no facts")
