"""Where the norm stands, and what is carried past a layer: one frozen class per rule."""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.config.checks import positive


@dataclass(frozen=True, slots=True, kw_only=True)
class PreNorm:
    """x + f(norm(x)): the residual stream itself is never normalised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostNorm:
    """norm(x + f(x)), as in the original Transformer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputNorm:
    """x + norm(f(x)), as in OLMo 2: what a layer writes is normalised, not what it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandwichNorm:
    """x + norm(f(norm(x))), as in Gemma 2: both what a layer reads and what it writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepNorm:
    """norm(alpha x + f(x)); values, outputs and feed-forward start `beta` times as large."""

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        positive("alpha", self.alpha)
        positive("beta", self.beta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """x + attention(norm(x)) + feed_forward(norm'(x)), as in GPT-NeoX: both read the same x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResidual:
    """f(norm(x)): no residual path. For seeing why there is one."""


Residual = PreNorm | PostNorm | OutputNorm | SandwichNorm | DeepNorm | Parallel | NoResidual
