"""How tokens gather from each other: one frozen class per kind of attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import at_least, fraction, positive
from pellucid.config.norms import GroupNorm, Norm
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHead:
    """Scaled dot-product attention in `n_heads` heads; fewer key/value heads make it grouped.

    What is left out is not there. `d_value`: features of a head's values, where not `d_head`.
    `scale`: what scores are multiplied by, where not 1 / sqrt(d_head). `window`: how many tokens a
    query sees, itself among them. `soft_cap`: scores become c tanh(s / c). `sinks`: a trained
    number per head stands beside the scores and takes its share of the softmax. `qk_norm_over`:
    whether queries and keys are normalised head by head or over all heads at once.
    """

    n_heads: int
    n_kv_heads: int
    d_head: int
    qkv_bias: bool
    out_bias: bool
    qk_norm: Norm | None
    dropout: float
    qk_norm_over: Literal["each_head", "all_heads"] = "each_head"
    d_value: int | None = None
    scale: float | None = None
    window: int | None = None
    soft_cap: float | None = None
    sinks: bool = False

    def __post_init__(self) -> None:
        _heads(self.n_heads, self.d_head)
        at_least("n_kv_heads", self.n_kv_heads, 1)
        fraction("dropout", self.dropout)
        if self.n_heads % self.n_kv_heads:
            raise ConfigError(
                f"n_heads must be a multiple of n_kv_heads, was {self.n_heads} and "
                f"{self.n_kv_heads}: each key/value head serves the same number of query heads"
            )
        for name, least in (("d_value", 1), ("window", 1)):
            setting = getattr(self, name)
            if setting is not None:
                at_least(name, setting, least)
        if isinstance(self.qk_norm, GroupNorm) and self.d_head % self.qk_norm.n_groups:
            raise ConfigError(
                f"d_head must be a multiple of qk_norm.n_groups, was {self.d_head} and "
                f"{self.qk_norm.n_groups}"
            )
        for name in ("scale", "soft_cap"):
            setting = getattr(self, name)
            if setting is not None:
                positive(name, setting)

    @property
    def value_width(self) -> int:
        """The features of one head's values."""
        return self.d_head if self.d_value is None else self.d_value


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention:
    """phi(q) (sum of phi(k) v^T) / phi(q) (sum of phi(k)), phi = elu + 1: cost linear in time.

    One step of generation costs the same however much was read. Training goes through the text
    in chunks of `chunk` tokens.
    """

    n_heads: int
    d_head: int
    qkv_bias: bool
    out_bias: bool
    chunk: int

    def __post_init__(self) -> None:
        _heads(self.n_heads, self.d_head)
        at_least("chunk", self.chunk, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuralMemory:
    """Attention over a window beside a memory that learns while it reads; a gate mixes the two.

    The memory is a linear map per head from keys to values, updated by the gradient of its
    surprise with momentum and decay, in chunks of `chunk` tokens: also at inference. With `frozen`
    it stays as it started.
    """

    n_heads: int
    d_head: int
    window: int
    chunk: int
    frozen: bool = False

    def __post_init__(self) -> None:
        _heads(self.n_heads, self.d_head)
        at_least("window", self.window, 1)
        at_least("chunk", self.chunk, 1)


OneAttention = MultiHead | LinearAttention | NeuralMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternating:
    """Layer i has the attention at i mod n: local beside global, linear beside softmax."""

    layers: tuple[OneAttention, ...]

    def __post_init__(self) -> None:
        if len(self.layers) < 2:
            raise ConfigError(
                f"Alternating needs at least two kinds of layers, was {len(self.layers)}: "
                "for one, name it itself"
            )
        widths = {layer.d_head for layer in self.layers}
        if len(widths) > 1:
            raise ConfigError(
                f"all layers must have the same d_head, was {sorted(widths)}: they share one "
                "scheme of positions"
            )


Attention = MultiHead | LinearAttention | NeuralMemory | Alternating


def _heads(n_heads: int, d_head: int) -> None:
    at_least("n_heads", n_heads, 1)
    at_least("d_head", d_head, 1)
