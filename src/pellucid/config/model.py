"""What a transformer is made of: one frozen class per kind, each with its own numbers.

Comes in: numbers somebody chose. Goes out: a checked value that `pellucid.model.assemble` turns
into modules and `pellucid.counting` into counts. It does not know torch.

There is no architectural default: presets say everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.config.checks import at_least, fraction, positive
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNorm:
    """(x - mean) / sqrt(var + eps) * gain (+ bias), over the features of one token."""

    eps: float
    bias: bool

    def __post_init__(self) -> None:
        positive("eps", self.eps)


@dataclass(frozen=True, slots=True, kw_only=True)
class RMSNorm:
    """x / sqrt(mean(x^2) + eps) * gain, over the features of one token."""

    eps: float

    def __post_init__(self) -> None:
        positive("eps", self.eps)


Norm = LayerNorm | RMSNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPositions:
    """The model is told nothing about where a token stands; the causal mask alone orders them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """One trained vector per position, added to the token embedding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinusoidal:
    """Fixed sines and cosines of the position, added to the token embedding."""

    base: float

    def __post_init__(self) -> None:
        positive("base", self.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary:
    """Queries and keys turned by an angle that grows with the position (half-split pairing)."""

    base: float

    def __post_init__(self) -> None:
        positive("base", self.base)


Positions = NoPositions | Learned | Sinusoidal | Rotary


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiHead:
    """Scaled dot-product attention in `n_heads` heads; fewer key/value heads make it grouped."""

    n_heads: int
    n_kv_heads: int
    d_head: int
    qkv_bias: bool
    out_bias: bool
    qk_norm: Norm | None
    dropout: float

    def __post_init__(self) -> None:
        at_least("n_heads", self.n_heads, 1)
        at_least("n_kv_heads", self.n_kv_heads, 1)
        at_least("d_head", self.d_head, 1)
        fraction("dropout", self.dropout)
        if self.n_heads % self.n_kv_heads:
            raise ConfigError(
                f"n_heads must be a multiple of n_kv_heads, was {self.n_heads} and "
                f"{self.n_kv_heads}: each key/value head serves the same number of query heads"
            )


Attention = MultiHead

Activation = Literal["relu", "relu_squared", "gelu", "gelu_tanh", "silu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MLP:
    """down(activation(up(x)))."""

    d_ff: int
    activation: Activation
    bias: bool

    def __post_init__(self) -> None:
        at_least("d_ff", self.d_ff, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedMLP:
    """down(activation(gate(x)) * up(x)); with SiLU this is SwiGLU."""

    d_ff: int
    activation: Activation
    bias: bool

    def __post_init__(self) -> None:
        at_least("d_ff", self.d_ff, 1)


FeedForward = MLP | GatedMLP


@dataclass(frozen=True, slots=True, kw_only=True)
class PreNorm:
    """x + f(norm(x)): the residual stream itself is never normalised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostNorm:
    """norm(x + f(x)), as in the original Transformer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResidual:
    """f(norm(x)): no residual path. For seeing why there is one."""


Residual = PreNorm | PostNorm | NoResidual


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """`n_layers` blocks of attention and feed-forward, alike."""

    n_layers: int
    positions: Positions
    attention: Attention
    feed_forward: FeedForward
    norm: Norm
    residual: Residual
    final_norm: bool
    dropout: float

    def __post_init__(self) -> None:
        at_least("n_layers", self.n_layers, 1)
        fraction("dropout", self.dropout)
        if isinstance(self.positions, Rotary) and self.attention.d_head % 2:
            raise ConfigError(
                f"Rotary turns pairs of features, so attention.d_head must be even, "
                f"was {self.attention.d_head}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """Token embeddings: scaled by sqrt(d_model) or not; tied to the output head or not."""

    tied: bool
    scaled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """Weights from a normal distribution of this standard deviation, whatever their shape."""

    std: float

    def __post_init__(self) -> None:
        positive("std", self.std)


@dataclass(frozen=True, slots=True, kw_only=True)
class He:
    """std = sqrt(2 / n_in): keeps the variance through a ReLU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Xavier:
    """std = sqrt(2 / (n_in + n_out)): a compromise between forward and backward variance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialisation:
    """How weights start; `outputs` says what happens to the projections that write the residual.

    "depth_scaled" divides their standard deviation by sqrt(2 n_layers), "zero" starts each block
    as the identity, "plain" treats them like the others.
    """

    weights: Normal | He | Xavier
    embedding_std: float
    outputs: Literal["plain", "depth_scaled", "zero"]

    def __post_init__(self) -> None:
        positive("embedding_std", self.embedding_std)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A decoder-only language model.

    `vocab_size` may be left out of a run's config: it then becomes the tokenizer's when the text
    is prepared. Given, it must be at least that.
    """

    vocab_size: int | None
    context_length: int
    d_model: int
    embedding: Embedding
    decoder: Stack
    initialisation: Initialisation

    def __post_init__(self) -> None:
        if self.vocab_size is not None:
            at_least("vocab_size", self.vocab_size, 2)
        at_least("context_length", self.context_length, 1)
        at_least("d_model", self.d_model, 1)
        if isinstance(self.decoder.positions, Sinusoidal) and self.d_model % 2:
            raise ConfigError(
                f"Sinusoidal positions need an even d_model, was {self.d_model}: "
                "every sine has its cosine"
            )

    @property
    def rows(self) -> int:
        """`vocab_size`, where it must be known by now."""
        if self.vocab_size is None:
            raise ConfigError(
                "model.vocab_size is not set; it is taken from the tokenizer when a run is "
                "prepared: pass --set model.vocab_size=N to do without a text"
            )
        return self.vocab_size
