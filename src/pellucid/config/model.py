"""What a transformer is made of: one frozen class per kind, each with its own numbers.

There is no architectural default: presets say everything.
"""

from __future__ import annotations

from dataclasses import dataclass

from pellucid.config.attention import (
    Alternating,
    Attention,
    LinearAttention,
    MultiHead,
    NeuralMemory,
    OneAttention,
)
from pellucid.config.checks import at_least, fraction
from pellucid.config.feed_forward import FeedForward
from pellucid.config.initialisation import Initialisation
from pellucid.config.norms import GroupNorm, Norm, Reparametrisation
from pellucid.config.output_heads import PLAIN_HEAD, ClassificationHead, Head, LanguageHead
from pellucid.config.positions import (
    ALiBi,
    BucketedBias,
    Positions,
    Rotary,
    ShawRelative,
    Sinusoidal,
    adds_to_scores,
)
from pellucid.config.residuals import Parallel, Residual
from pellucid.errors import ConfigError

#: No table of positions for more is made.
LONGEST_CONTEXT = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """`n_layers` blocks of attention and feed-forward.

    What is left out is not there: `input_norm`, before the first block; `cross_attention`, with
    which a decoder looks at what an encoder made; `reparametrisation` of every linear layer.
    """

    n_layers: int
    positions: Positions
    attention: Attention
    feed_forward: FeedForward
    norm: Norm
    residual: Residual
    final_norm: bool
    dropout: float
    input_norm: Norm | None = None
    cross_attention: MultiHead | None = None
    reparametrisation: Reparametrisation | None = None

    def __post_init__(self) -> None:
        at_least("n_layers", self.n_layers, 1)
        fraction("dropout", self.dropout)
        if isinstance(self.positions, Rotary):
            self._check_rotary(self.positions)
        self._check_scores()
        self._check_shared_positions()
        cross = self.cross_attention
        if cross is not None and (cross.qk_norm is not None or cross.window is not None):
            raise ConfigError(
                "cross_attention must have neither qk_norm nor window: it looks at all of what "
                "the encoder made, as it is; set them to none"
            )
        if cross is not None and isinstance(self.residual, Parallel):
            raise ConfigError(
                "residual must not be Parallel in a decoder with cross_attention: what it looks "
                "for depends on what attention found"
            )

    def _check_scores(self) -> None:
        linear = all(isinstance(layer, LinearAttention) for layer in self.pattern)
        if linear and adds_to_scores(self.positions):
            raise ConfigError(
                f"positions must not be {type(self.positions).__name__} where every layer is "
                "LinearAttention: it forms no scores that positions could be added to; take "
                "Rotary, Learned, Sinusoidal or NoPositions"
            )

    def _check_shared_positions(self) -> None:
        """The layers of a stack share one scheme of positions, so it has to fit each of them."""
        heads = {layer.n_heads for layer in self.pattern}
        if isinstance(self.positions, BucketedBias | ALiBi) and len(heads) > 1:
            raise ConfigError(
                f"all layers must have the same n_heads with {type(self.positions).__name__}, was "
                f"{sorted(heads)}: it has a number for each head, and the layers share it"
            )
        widths = {
            layer.value_width if isinstance(layer, MultiHead) else layer.d_head
            for layer in self.pattern
        }
        added = isinstance(self.positions, ShawRelative) and self.positions.values
        if added and len(widths) > 1:
            raise ConfigError(
                f"all layers must have values of the same width, was {sorted(widths)}: with "
                "values = true, ShawRelative adds one table of vectors to those of every layer"
            )

    def _check_rotary(self, rotary: Rotary) -> None:
        width = self.d_head if rotary.n_features is None else rotary.n_features
        if width > self.d_head:
            raise ConfigError(
                f"positions.n_features must be at most attention.d_head, was {width} and "
                f"{self.d_head}"
            )
        if width % 2:
            raise ConfigError(
                f"Rotary turns pairs of features, so attention.d_head must be even, was {width}"
            )

    @property
    def pattern(self) -> tuple[OneAttention, ...]:
        """The kinds of attention that take turns, the first layer's first; mostly one."""
        if isinstance(self.attention, Alternating):
            return self.attention.layers
        return (self.attention,)

    @property
    def layers(self) -> tuple[OneAttention, ...]:
        """The attention of each layer, the first layer first."""
        kinds = self.pattern
        return tuple(kinds[layer % len(kinds)] for layer in range(self.n_layers))

    @property
    def d_head(self) -> int:
        """The features of one head, the same in every layer."""
        return self.pattern[0].d_head

    @property
    def d_value(self) -> int:
        """The features of one head's values, in the first layer."""
        first = self.pattern[0]
        return first.value_width if isinstance(first, MultiHead) else first.d_head

    @property
    def n_heads(self) -> int:
        """The number of heads of the first layer."""
        return self.pattern[0].n_heads


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """Token embeddings: scaled by sqrt(d_model) or not; tied to the output head or not.

    `segments`: how many kinds of text a sequence may be made of, each with its own vector (BERT's
    token types), where there are any.
    """

    tied: bool
    scaled: bool
    segments: int | None = None

    def __post_init__(self) -> None:
        if self.segments is not None:
            at_least("segments", self.segments, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A decoder, an encoder, or both.

    A decoder alone is a language model: causal. An encoder alone sees both ways. With both, the
    decoder looks at what the encoder made of another text; they share the token embedding.
    `pooler`: a dense layer and tanh over the first token's state, as in BERT.

    `vocab_size` may be left out of a run's config: it then becomes the tokenizer's when the text
    is prepared. Given, it must be at least that.
    """

    vocab_size: int | None
    context_length: int
    d_model: int
    embedding: Embedding
    encoder: Stack | None = None
    decoder: Stack | None = None
    head: Head = PLAIN_HEAD
    pooler: bool = False
    initialisation: Initialisation

    def __post_init__(self) -> None:
        if self.vocab_size is not None:
            at_least("vocab_size", self.vocab_size, 2)
        at_least("context_length", self.context_length, 1)
        if self.context_length > LONGEST_CONTEXT:
            raise ConfigError(
                f"context_length must be at most {LONGEST_CONTEXT:,}, was "
                f"{self.context_length:,}: tables of positions are as long"
            )
        at_least("d_model", self.d_model, 1)
        if not self.stacks:
            raise ConfigError("a model needs an encoder, a decoder, or both; neither was given")
        self._check_cross_attention()
        self._check_classification()
        if self.encoder is not None and any(
            isinstance(layer, NeuralMemory) for layer in self.encoder.pattern
        ):
            raise ConfigError(
                "encoder.attention must not be NeuralMemory: a memory is written from left to "
                "right, and an encoder looks both ways"
            )
        for stack in self.stacks:
            self._check_widths(stack)

    def _check_cross_attention(self) -> None:
        if self.encoder is not None and self.encoder.cross_attention is not None:
            raise ConfigError("encoder.cross_attention must be none: only a decoder looks at")
        if self.decoder is None:
            return
        crossed = self.decoder.cross_attention is not None
        if crossed and self.encoder is None:
            raise ConfigError(
                "decoder.cross_attention needs an encoder to look at: give one, or pass "
                "--set model.decoder.cross_attention=none"
            )
        if self.encoder is not None and not crossed:
            raise ConfigError(
                "decoder.cross_attention is missing: without it the decoder would not see what "
                'the encoder made. For an encoder alone, say decoder = "none" where a base has one'
            )

    def _check_classification(self) -> None:
        if not isinstance(self.head, ClassificationHead) or self.decoder is None:
            return
        if self.encoder is not None:
            raise ConfigError(
                "head must not be ClassificationHead in an encoder-decoder, which writes a text "
                "while it looks at another; to name the class of a text, take an encoder or a "
                "decoder alone"
            )
        if self.head.pooling == "first":
            raise ConfigError(
                'head.pooling must not be "first" in a decoder, whose first token sees no other: '
                'every text would get the same class; take "last" or "mean"'
            )

    def _check_widths(self, stack: Stack) -> None:
        if isinstance(stack.positions, Sinusoidal) and self.d_model % 2:
            raise ConfigError(
                f"Sinusoidal positions need an even d_model, was {self.d_model}: "
                "every sine has its cosine"
            )
        transform = self.head.transform if isinstance(self.head, LanguageHead) else None
        last = None if transform is None else transform.norm
        for norm in (stack.norm, stack.input_norm, last):
            if isinstance(norm, GroupNorm) and self.d_model % norm.n_groups:
                raise ConfigError(
                    f"d_model must be a multiple of n_groups, was {self.d_model} and "
                    f"{norm.n_groups}"
                )
        if stack.reparametrisation is not None and self.initialisation.outputs == "zero":
            raise ConfigError(
                'initialisation.outputs must not be "zero" with '
                f"{type(stack.reparametrisation).__name__}, which divides a matrix by its size; "
                'take "plain" or "depth_scaled"'
            )

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The encoder and the decoder, those that are there."""
        return tuple(stack for stack in (self.encoder, self.decoder) if stack is not None)

    @property
    def rows(self) -> int:
        """`vocab_size`, where it must be known by now."""
        if self.vocab_size is None:
            raise ConfigError(
                "model.vocab_size is not set; it is taken from the tokenizer when a run is "
                "prepared: pass --set model.vocab_size=N to do without a text"
            )
        return self.vocab_size
