"""The place of the norm and the residual path of a layer: one frozen class per rule."""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.config.checks import Checked, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class PreNorm:
    """x + f(norm(x)): the residual stream itself is never normalised."""


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
    """x + attention(norm(x)) + feed_forward(norm'(x)), as in GPT-NeoX: both read the same x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResidual:
    """f(norm(x)): no residual path. Use it to see why models have one."""


Residual = PreNorm | PostNorm | OutputNorm | SandwichNorm | DeepNorm | Parallel | NoResidual
