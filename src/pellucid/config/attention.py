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

    Attributes:
        n_heads: query heads.
        n_kv_heads: key and value heads; `n_heads` must be a multiple of it; fewer make attention
            grouped.
        d_head: the width of a head's queries and keys; `n_heads` times `d_head` need not be
            `d_model`.
        qkv_bias: whether the projections to queries, keys and values have biases.
        out_bias: whether the projection back to `d_model` has one.
        qk_norm: a norm over queries, and one over keys.
        dropout: of the attention weights.
        qk_norm_over: whether these norms act on each head, with one gain for all heads or with a
            gain of each head's own, as in Cohere and StableLM; or on all heads at once, as in OLMo
            2.
        d_value: the width of a head's values; absent, `d_head`.
        scale: the factor of the scores; absent, 1 / sqrt(d_head).
        window: how many tokens a query sees, including its own; in an encoder, that many to either
            side.
        soft_cap: scores s become c tanh(s / c), c this number.
        sinks: whether each head has one trained number that joins its scores in the softmax.
        qk_norm_place: whether these norms come before or after positions rotate queries and keys.
        clip: the bound of queries, keys and values, which are clipped before positions rotate them,
            as in OLMo and MPT.
        query_bias, key_bias, value_bias: an exception from `qkv_bias` for one of the three, as in
            DeBERTa, whose keys have no bias.
        output_gate: a sigmoid of a projection of the input multiplies the heads' outputs, with a
            gate for each feature, as in Qwen3-Next, or for each head. The projection has a bias if
            the queries have one.
        scale_by_layer: whether layer i, counted from 1, divides its scores by i, as GPT-2 can.
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

    DeepSeek V2 and V3 have it. The keys and values of all heads are products of the latent.
    Positions rotate `d_rotated` more features of each query and of one key that all heads share. So
    a cache keeps `d_latent` + `d_rotated` numbers per token and layer, however many heads there
    are.

    Attributes:
        n_heads: heads.
        d_head: features of a head's queries and keys without positions (`qk_nope_head_dim`).
        d_rotated: features with positions (`qk_rope_head_dim`); `Rotary` needs an even number.
        d_value: features of a head's values (`v_head_dim`).
        d_latent: the width of a token's latent (`kv_lora_rank`).
        latent_norm: the norm of the latents.
        latent_bias: whether the projections to latents and to the shared key have biases.
        out_bias: whether the projection back to `d_model` has one.
        dropout: of the attention weights.
        d_query_latent: the width of a latent for the queries (`q_lora_rank`); absent, queries are
            projected from the state.
        scale: the factor of the scores; absent, 1 / sqrt(d_head + d_rotated). DeepSeek multiplies
            it by YaRN's mscale squared.
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

    One step of generation costs the same however much was read.

    Attributes:
        n_heads: heads.
        d_head: the width of a head's queries, keys and values.
        qkv_bias: whether the projections to queries, keys and values have biases.
        out_bias: whether the projection back to `d_model` has one.
        chunk: the number of tokens in one step; the numbers are the same for every chunk.
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
    momentum and decay, updates it, also at inference.

    Attributes:
        n_heads: heads.
        d_head: the width of a head's queries, keys and values.
        window: how many tokens a query sees, including its own.
        chunk: the number of tokens in one step. Within a chunk every step starts from the state at
            its beginning, so another chunk gives other numbers.
        frozen: whether the memory stays as it started.
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

    Attributes:
        layers: the kinds that take turns.
        first: the kinds of the first layers, one each; the turns begin after them.
    """

    layers: tuple[OneAttention, ...]
    first: tuple[OneAttention, ...] = ()

    def _check(self) -> None:
        check_turns(self, self.layers, self.first)


#: The attention of a stack.
Attention = OneAttention | Alternating
