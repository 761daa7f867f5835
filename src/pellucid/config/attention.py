"""How tokens gather from each other: one frozen class per kind of attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import Checked, Count, Fraction, Positive, check_turns
from pellucid.config.norms import GroupNorm, Norm
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHead(Checked):
    """Scaled dot-product attention in `n_heads` heads; fewer key/value heads make it grouped.

    `d_value`: features of a head's values (default: `d_head`). `scale`: the factor of the scores
    (default: 1 / sqrt(d_head)). `window`: how many tokens a query sees, including its own.
    `soft_cap`: scores become c tanh(s / c). `sinks`: each head has one trained number that joins
    its scores in the softmax. `qk_norm_over`: whether queries and keys are normalised head by head
    or over all heads at once.
    """

    n_heads: Count
    n_kv_heads: Count
    d_head: Count
    qkv_bias: bool
    out_bias: bool
    qk_norm: Norm | None
    dropout: Fraction
    qk_norm_over: Literal["each_head", "all_heads"] = "each_head"
    d_value: Count | None = None
    scale: Positive | None = None
    window: Count | None = None
    soft_cap: Positive | None = None
    sinks: bool = False

    def _check(self) -> None:
        if self.n_heads % self.n_kv_heads:
            raise ConfigError(
                f"n_heads must be a multiple of n_kv_heads, was {self.n_heads} and "
                f"{self.n_kv_heads}: each key/value head serves the same number of query heads"
            )
        if isinstance(self.qk_norm, GroupNorm) and self.d_head % self.qk_norm.n_groups:
            raise ConfigError(
                f"d_head must be a multiple of qk_norm.n_groups, was {self.d_head} and "
                f"{self.qk_norm.n_groups}"
            )

    @property
    def value_width(self) -> int:
        """The features of one head's values."""
        return self.d_head if self.d_value is None else self.d_value


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention(Checked):
    """phi(q) (sum of phi(k) v^T) / phi(q) (sum of phi(k)), phi = elu + 1: cost linear in time.

    One step of generation costs the same however much was read. Training goes through the text
    in chunks of `chunk` tokens.
    """

    n_heads: Count
    d_head: Count
    qkv_bias: bool
    out_bias: bool
    chunk: Count

    @property
    def value_width(self) -> int:
        """The features of one head's values."""
        return self.d_head


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuralMemory(Checked):
    """Attention over a window, and a memory that learns while it reads; a gate mixes the two.

    The memory is a linear map per head from keys to values. The gradient of its surprise, with
    momentum and decay, updates it in chunks of `chunk` tokens, also at inference. With `frozen`
    it stays as it started.
    """

    n_heads: Count
    d_head: Count
    window: Count
    chunk: Count
    frozen: bool = False

    @property
    def value_width(self) -> int:
        """The features of one head's values."""
        return self.d_head


OneAttention = MultiHead | LinearAttention | NeuralMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternating(Checked):
    """The layers have these kinds of attention in turn: for example local and global layers.

    With `first`, the first layers have those, one each, and the turns begin after them.
    """

    layers: tuple[OneAttention, ...]
    first: tuple[OneAttention, ...] = ()

    def _check(self) -> None:
        check_turns(self, self.layers, self.first)


Attention = OneAttention | Alternating
