"""A stack of layers: the parts of each layer, and what all of them share."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.config.attention import (
    Alternating,
    Attention,
    LatentAttention,
    LinearAttention,
    MultiHead,
    OneAttention,
    rotated_width,
    value_width,
)
from pellucid.config.blocks import AlternatingFeedForward, FeedForward, Parallel, PreNorm, Residual
from pellucid.config.checks import Checked, Count, Fraction
from pellucid.config.layers import Layer, LayerPattern, SharedLayers, Turns
from pellucid.config.norms import BatchNorm, Norm, Reparametrisation
from pellucid.config.positions import (
    ALiBi,
    AlternatingPositions,
    BucketedBias,
    Disentangled,
    Learned,
    NoPositions,
    OnePositions,
    Positions,
    Rotary,
    ShawRelative,
    Sinusoidal,
    adds_to_scores,
)
from pellucid.config.rotary_scaling import LongRoPE
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack(Checked):
    """`n_layers` blocks of attention and feed-forward.

    Attributes:
        n_layers: how many blocks.
        positions: how the model learns the position of a token.
        attention: how tokens gather from each other.
        feed_forward: the layer that transforms each token alone.
        norm: the norm of features.
        residual: the residual path of a layer and the place of its norm.
        final_norm: whether another norm follows the last block.
        dropout: on the embedded tokens, and on the output of each attention and feed-forward.
        input_norm: a norm of the embedded tokens before the first block, as in BERT.
        cross_attention: attention by which a decoder reads the states of the encoder, between
            attention and feed-forward. It has no `qk_norm`, `window`, `clip`, `output_gate` or
            `scale_by_layer`.
        reparametrisation: another form of the matrices of linear layers.
        shared_layers: layers that use the same weights.
        first_attention_norm: whether the attention of the first block has its norm. Only `PreNorm`
            can do without, as in ModernBERT, where `input_norm` is just before it.
        embedding_dropout: the dropout on the embedded tokens; absent, `dropout`.
        embedding_positions: positions that are added to the embedding although `positions` act
            within the layers, as in MPNet.
    """

    n_layers: Count
    positions: Positions
    attention: Attention
    feed_forward: FeedForward
    norm: Norm
    residual: Residual
    final_norm: bool
    dropout: Fraction
    input_norm: Norm | None = None
    cross_attention: MultiHead | None = None
    reparametrisation: Reparametrisation | None = None
    shared_layers: SharedLayers | None = None
    first_attention_norm: bool = True
    embedding_dropout: Fraction | None = None
    embedding_positions: Learned | Sinusoidal | None = None

    def _check(self) -> None:
        outside = isinstance(self.positions, Learned | Sinusoidal | NoPositions)
        if self.embedding_positions is not None and outside:
            raise ConfigError(
                f"embedding_positions must be none if positions is {type(self.positions).__name__}:"
                " they go with positions within the layers; name the one scheme in positions"
            )
        for scheme in self.schemes:
            layers = [layer for layer in self.layer_counts if layer.positions == scheme]
            _check_scheme(scheme, layers)
        self._check_cross_attention()
        if self.shared_layers is not None:
            self._check_shared_layers(self.shared_layers)
        if not self.first_attention_norm and not isinstance(self.residual, PreNorm):
            raise ConfigError(
                "first_attention_norm = false needs residual PreNorm, was "
                f"{type(self.residual).__name__}: other rules have no norm that could be left out"
            )

    def _check_cross_attention(self) -> None:
        cross = self.cross_attention
        if cross is not None and (cross.qk_norm is not None or cross.window is not None):
            raise ConfigError(
                "cross_attention must have neither qk_norm nor window: it looks at all states of "
                "the encoder, unchanged; set them to none"
            )
        if cross is not None and (cross.clip or cross.output_gate or cross.scale_by_layer):
            raise ConfigError(
                "cross_attention must have no clip, no output_gate and no scale_by_layer: these "
                "are for attention within a text; set them to none, none and false"
            )
        if cross is not None and isinstance(self.residual, Parallel):
            raise ConfigError(
                "residual must not be Parallel in a decoder with cross_attention: its queries "
                "depend on the output of self-attention"
            )

    def _check_shared_layers(self, shared: SharedLayers) -> None:
        shared.check_depth(self.n_layers)
        if self.reparametrisation is not None or isinstance(self.norm, BatchNorm):
            unfit = self.norm if self.reparametrisation is None else self.reparametrisation
            raise ConfigError(
                f"shared_layers does not go with {type(unfit).__name__}, which keeps numbers of "
                "its own for each layer"
            )
        if not self.first_attention_norm:
            raise ConfigError(
                "shared_layers needs first_attention_norm = true: layers that share weights must "
                "have the same norms"
            )
        layers = self.layers
        for index, layer in enumerate(layers):
            owner = shared.owner(index, self.n_layers)
            for name in ("attention", "feed_forward"):
                if getattr(layer, name) != getattr(layers[owner], name):
                    raise ConfigError(
                        f"layers {owner + 1} and {index + 1} share their weights, so their {name} "
                        "must be the same: choose groups and layers_per_group that fit the pattern"
                    )

    @property
    def input_dropout(self) -> float:
        """The dropout on the embedded tokens."""
        return self.dropout if self.embedding_dropout is None else self.embedding_dropout

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The parts of each layer, the first layer first."""
        return _layers(self.attention, self.feed_forward, self.positions, self.n_layers)

    @property
    def layer_counts(self) -> dict[Layer, int]:
        """How many layers have the same parts, in the order in which a token meets them."""
        return dict(_counts(self.attention, self.feed_forward, self.positions, self.n_layers))

    @property
    def owners(self) -> tuple[int, ...]:
        """For each layer, the first one that has its weights; the first layer is 0."""
        shared, n = self.shared_layers, self.n_layers
        return tuple(layer if shared is None else shared.owner(layer, n) for layer in range(n))

    @property
    def schemes(self) -> tuple[OnePositions, ...]:
        """The schemes of positions, each once; layers that name an equal one share it."""
        return tuple(dict.fromkeys(layer.positions for layer in self.layer_counts))

    @property
    def pattern(self) -> tuple[OneAttention, ...]:
        """The kinds of attention: of the first layers, then those that take turns; usually one."""
        turns = _attention_turns(self.attention)
        return (*turns.first, *turns.layers)

    @property
    def d_head(self) -> int:
        """The features of one head that positions can rotate, in the first layer."""
        return rotated_width(self.pattern[0])

    @property
    def d_value(self) -> int:
        """The features of one head's values, in the first layer."""
        return value_width(self.pattern[0])

    @property
    def n_heads(self) -> int:
        """The number of heads of the first layer."""
        return self.pattern[0].n_heads


def _attention_turns(attention: Attention) -> Turns[OneAttention]:
    if isinstance(attention, Alternating):
        return Turns(attention.first, attention.layers)
    return Turns((), (attention,))


@functools.lru_cache
def _pattern(attention: Attention, feed_forward: FeedForward, positions: Positions) -> LayerPattern:
    return LayerPattern(
        _attention_turns(attention),
        Turns(feed_forward.first, feed_forward.layers)
        if isinstance(feed_forward, AlternatingFeedForward)
        else Turns((), (feed_forward,)),
        Turns(positions.first, positions.layers)
        if isinstance(positions, AlternatingPositions)
        else Turns((), (positions,)),
    )


@functools.lru_cache
def _layers(
    attention: Attention, feed_forward: FeedForward, positions: Positions, n_layers: int
) -> tuple[Layer, ...]:
    pattern = _pattern(attention, feed_forward, positions)
    return tuple(pattern.layer(index) for index in range(n_layers))


@functools.lru_cache
def _counts(
    attention: Attention, feed_forward: FeedForward, positions: Positions, n_layers: int
) -> tuple[tuple[Layer, int], ...]:
    return tuple(_pattern(attention, feed_forward, positions).layer_counts(n_layers).items())


def _check_scheme(scheme: OnePositions, layers: Iterable[Layer]) -> None:
    """Refuse a scheme that does not fit one of the layers that share it."""
    attentions = [layer.attention for layer in layers]
    name = type(scheme).__name__
    if adds_to_scores(scheme) and all(isinstance(a, LinearAttention) for a in attentions):
        raise ConfigError(
            f"positions must not be {name} if every layer is LinearAttention: it has no scores to "
            "which positions could be added; take Rotary, Learned, Sinusoidal or NoPositions"
        )
    if isinstance(scheme, BucketedBias | ALiBi):
        reason = "it has a number for each head, and the layers share it"
        _check_equal(name, "n_heads", {a.n_heads for a in attentions}, reason)
    if isinstance(scheme, ShawRelative):
        if any(isinstance(attention, LatentAttention) for attention in attentions):
            raise ConfigError(
                "positions must not be ShawRelative with LatentAttention, whose keys are made from "
                "latents when they are read; take Rotary, ALiBi, BucketedBias, Learned, Sinusoidal "
                "or NoPositions"
            )
        reason = "it adds the same table of vectors in every layer"
        _check_equal(name, "d_head", {a.d_head for a in attentions}, reason)
        if scheme.values:
            _check_values({value_width(attention) for attention in attentions})
    if isinstance(scheme, Disentangled):
        _check_disentangled(attentions)
    if isinstance(scheme, Rotary):
        if scheme.n_features is None:
            reason = "the layers share its angles; or set n_features"
            _check_equal(name, "d_head", {rotated_width(a) for a in attentions}, reason)
        for attention in attentions:
            _check_rotary(scheme, rotated_width(attention))


def _check_disentangled(attentions: Iterable[OneAttention]) -> None:
    """Refuse attention whose projections cannot make queries and keys of distances."""
    for attention in attentions:
        if not isinstance(attention, MultiHead) or attention.qk_norm is not None:
            name = type(attention).__name__
            kind = f"{name} with qk_norm" if isinstance(attention, MultiHead) else name
            raise ConfigError(
                f"every layer must be MultiHead without qk_norm with Disentangled, was {kind}: "
                "its projections of queries and keys project distances too"
            )


def _check_equal(scheme: str, size: str, values: set[int], reason: str) -> None:
    if len(values) > 1:
        raise ConfigError(
            f"all layers must have the same {size} with {scheme}, was {sorted(values)}: {reason}"
        )


def _check_values(widths: set[int]) -> None:
    if len(widths) > 1:
        raise ConfigError(
            f"all layers must have values of the same width, was {sorted(widths)}: with "
            "values = true, ShawRelative adds the same table of vectors in every layer"
        )


def _check_rotary(rotary: Rotary, d_head: int) -> None:
    width = d_head if rotary.n_features is None else rotary.n_features
    if width > d_head:
        raise ConfigError(
            f"positions.n_features must be at most attention.d_head, was {width} and {d_head}"
        )
    if width % 2:
        raise ConfigError(
            f"Rotary rotates pairs of features, so attention.d_head must be even, was {width}"
        )
    scaling = rotary.scaling
    if isinstance(scaling, LongRoPE) and len(scaling.short) != width // 2:
        raise ConfigError(
            "positions.scaling must have a factor for each pair of rotated features, "
            f"{width // 2}, was {len(scaling.short)}"
        )
