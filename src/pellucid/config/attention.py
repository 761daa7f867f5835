"""How tokens gather from each other: one frozen class per kind of attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from pellucid.config.checks import Checked, Count, Fraction, Positive, check_turns
from pellucid.config.norms import GroupNorm, LayerNorm, Norm, RMSNorm
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHead(Checked):
    """Scaled dot-product attention in `n_heads` heads; fewer key/value heads make it grouped.

    `d_value`: features of a head's values (default: `d_head`). `scale`: the factor of the scores
    (default: 1 / sqrt(d_head)). `window`: how many tokens a query sees, including its own.
    `soft_cap`: scores become c tanh(s / c). `sinks`: each head has one trained number that joins
    its scores in the softmax. `qk_norm_over`: whether queries and keys are normalised head by head,
    with one gain for all heads or with a gain of each head's own, or over all heads at once.
    `qk_norm_place`: before or after positions rotate them. `clip`: queries, keys and values are
    clipped to +-clip before that rotation. `query_bias`, `key_bias`, `value_bias`: exceptions from
    `qkv_bias`. `output_gate`: a sigmoid of a projection of the input multiplies the heads' outputs,
    with one gate for each feature or for each head. `scale_by_layer`: layer i, counted from 1,
    divides its scores by i.
    """

    n_heads: Count
    n_kv_heads: Count
    d_head: Count
    qkv_bias: bool
    out_bias: bool
    qk_norm: Norm | None
    dropout: Fraction
    qk_norm_over: Literal["each_head", "each_head_own_gain", "all_heads"] = "each_head"
    d_value: Count | None = None
    scale: Positive | None = None
    window: Count | None = None
    soft_cap: Positive | None = None
    sinks: bool = False
    qk_norm_place: Literal["before_rotation", "after_rotation"] = "before_rotation"
    clip: Positive | None = None
    query_bias: bool | None = None
    key_bias: bool | None = None
    value_bias: bool | None = None
    output_gate: Literal["features", "heads"] | None = None
    scale_by_layer: bool = False

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
        own_gain = self.qk_norm_over == "each_head_own_gain"
        if own_gain and isinstance(self.qk_norm, LayerNorm | RMSNorm) and not self.qk_norm.gain:
            raise ConfigError(
                'qk_norm.gain must be true with qk_norm_over = "each_head_own_gain": without a '
                'gain there is none of each head; take "each_head"'
            )
        if own_gain and isinstance(self.qk_norm, LayerNorm) and self.qk_norm.unit_offset:
            raise ConfigError(
                "qk_norm.unit_offset must be false in a LayerNorm with qk_norm_over = "
                '"each_head_own_gain"; take RMSNorm, or "each_head"'
            )
        if own_gain and not isinstance(self.qk_norm, LayerNorm | RMSNorm | None):
            raise ConfigError(
                'qk_norm must be LayerNorm or RMSNorm with qk_norm_over = "each_head_own_gain", '
                f"was {type(self.qk_norm).__name__}"
            )
        if own_gain and self.qk_norm is not None and not _has_plain_gain(self.qk_norm):
            raise ConfigError(
                "qk_norm must have a gain, and a LayerNorm no unit_offset, with qk_norm_over = "
                '"each_head_own_gain"'
            )

    @property
    def biases(self) -> tuple[bool, bool, bool]:
        """Whether the projections to queries, keys and values have biases."""
        exceptions = (self.query_bias, self.key_bias, self.value_bias)
        query, key, value = (
            self.qkv_bias if exception is None else exception for exception in exceptions
        )
        return query, key, value

    @property
    def value_width(self) -> int:
        """The features of one head's values."""
        return self.d_head if self.d_value is None else self.d_value


def _has_plain_gain(norm: Norm) -> bool:
    match norm:
        case LayerNorm(gain=gain, unit_offset=unit_offset):
            return gain and not unit_offset
        case RMSNorm(gain=gain):
            return gain
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention(Checked):
    """Softmax attention whose keys and values are made from one small vector per token, the latent.

    `d_latent`: its width. A query and a key have `d_head` features without positions, and
    `d_rotated` with them; the latter are the same in the keys of all heads. A cache keeps the
    latent and these, so it does not grow with `n_heads`. `latent_norm`: of the latents.
    `latent_bias`: of the projections to them and to the rotated key. `d_query_latent`: the width of
    a latent for the queries too (default: none). `scale`: the factor of the scores (default:
    1 / sqrt(d_head + d_rotated)).
    """

    n_heads: Count
    d_head: Count
    d_rotated: Count
    d_value: Count
    d_latent: Count
    latent_norm: LayerNorm | RMSNorm
    latent_bias: bool
    out_bias: bool
    dropout: Fraction
    d_query_latent: Count | None = None
    scale: Positive | None = None


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


#: Attention that is alike in all layers.
OneAttention = MultiHead | LatentAttention | LinearAttention | NeuralMemory


def rotated_width(attention: OneAttention) -> int:
    """The features of a head's query that positions can rotate."""
    match attention:
        case LatentAttention(d_rotated=width):
            return width
        case MultiHead(d_head=width) | LinearAttention(d_head=width) | NeuralMemory(d_head=width):
            return width
        case _:
            assert_never(attention)


def value_width(attention: OneAttention) -> int:
    """The features of a head's values."""
    match attention:
        case MultiHead():
            return attention.value_width
        case LatentAttention(d_value=width):
            return width
        case LinearAttention(d_head=width) | NeuralMemory(d_head=width):
            return width
        case _:
            assert_never(attention)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternating(Checked):
    """The layers have these kinds of attention in turn: for example local and global layers.

    With `first`, the first layers have those, one each, and the turns begin after them.
    """

    layers: tuple[OneAttention, ...]
    first: tuple[OneAttention, ...] = ()

    def _check(self) -> None:
        check_turns(self, self.layers, self.first)


#: The attention of a stack.
Attention = OneAttention | Alternating
