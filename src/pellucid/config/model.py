"""A transformer: its stacks, its embedding and its head.

There is no default architecture: presets name every part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pellucid.config.attention import NeuralMemory
from pellucid.config.checks import AtLeast, Checked, Count
from pellucid.config.embedding import Embedding
from pellucid.config.initialisation import Initialisation
from pellucid.config.norms import GroupNorm
from pellucid.config.output_heads import PLAIN_HEAD, ClassificationHead, Head, LanguageHead, NoHead
from pellucid.config.positions import Sinusoidal
from pellucid.config.stack import Stack
from pellucid.errors import ConfigError

#: The longest table of positions.
LONGEST_CONTEXT = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer(Checked):
    """A decoder, an encoder, or both.

    A decoder alone is a language model: causal. An encoder alone sees the text before and after a
    token. With both, the decoder reads the encoder's states of another text; they share the token
    embedding.

    Attributes:
        vocab_size: rows of the embedding, at least as many as the tokenizer's; absent, the
            tokenizer's.
        context_length: the most tokens that each stack sees at once, at most 16,777,216.
        d_model: the width of the residual stream; even for `Sinusoidal`.
        embedding: the token embedding, which both stacks share.
        encoder: the stack that sees the text before and after each token.
        decoder: the causal stack.
        head: the layer after the last hidden states.
        pooler: whether a dense layer and tanh read the first token's last state, as in BERT.
        initialisation: how weights start.
    """

    vocab_size: Annotated[int, AtLeast(2)] | None
    context_length: Count
    d_model: Count
    embedding: Embedding
    encoder: Stack | None = None
    decoder: Stack | None = None
    head: Head = PLAIN_HEAD
    pooler: bool = False
    initialisation: Initialisation

    def _check(self) -> None:
        if self.context_length > LONGEST_CONTEXT:
            raise ConfigError(
                f"context_length must be at most {LONGEST_CONTEXT:,}, was "
                f"{self.context_length:,}: tables of positions are as long"
            )
        if not self.stacks:
            raise ConfigError("a model needs an encoder, a decoder, or both: this one has neither")
        self._check_cross_attention()
        self._check_classification()
        self._check_tied()
        if self.encoder is not None and any(
            isinstance(layer.attention, NeuralMemory) for layer in self.encoder.layer_counts
        ):
            raise ConfigError(
                "encoder.attention must not be NeuralMemory: a memory learns from left to right, "
                "and an encoder sees the text before and after a token"
            )
        for stack in self.stacks:
            self._check_widths(stack)

    def _check_cross_attention(self) -> None:
        if self.encoder is not None and self.encoder.cross_attention is not None:
            raise ConfigError("encoder.cross_attention must be none: only a decoder has it")
        if self.decoder is None:
            return
        crossed = self.decoder.cross_attention is not None
        if crossed and self.encoder is None:
            raise ConfigError(
                "decoder.cross_attention needs an encoder: give one, or pass "
                "--set model.decoder.cross_attention=none"
            )
        if self.encoder is not None and not crossed:
            raise ConfigError(
                "decoder.cross_attention is missing: without it the decoder would not see the "
                'encoder. For an encoder alone, set decoder = "none" if the base has one'
            )

    def _check_classification(self) -> None:
        if not isinstance(self.head, ClassificationHead) or self.decoder is None:
            return
        if self.encoder is not None:
            raise ConfigError(
                "head must not be ClassificationHead in an encoder-decoder, which writes a text "
                "from another; to name the class of a text, take an encoder or a decoder alone"
            )
        if self.head.pooling == "first":
            raise ConfigError(
                'head.pooling must not be "first" in a decoder, where it sees only itself: all '
                'texts would get the same class; take "last" or "mean"'
            )

    def _check_tied(self) -> None:
        tied = isinstance(self.head, LanguageHead) and self.embedding.tied
        if tied and self.head_width != self.token_width:
            raise ConfigError(
                f"head.transform is missing: a tied head reads vectors of {self.token_width} "
                f"numbers (embedding.projection.width), and states have {self.d_model}; give the "
                "head a HeadTransform, or set embedding.tied to false"
            )

    def _check_widths(self, stack: Stack) -> None:
        width = self.positions_width
        name = "d_model" if width == self.d_model else "embedding.projection.width"
        added = (stack.positions, stack.embedding_positions)
        if any(isinstance(scheme, Sinusoidal) for scheme in added) and width % 2:
            raise ConfigError(
                f"Sinusoidal positions need an even {name}, was {width}: every sine has its cosine"
            )
        transform = None if isinstance(self.head, NoHead) else self.head.transform
        head_norm = None if transform is None else transform.norm
        for norm, width in (
            (stack.norm, self.d_model),
            (stack.input_norm, self.input_norm_width),
            (head_norm, self.head_width),
        ):
            if isinstance(norm, GroupNorm) and width % norm.n_groups:
                name = "d_model" if width == self.d_model else "embedding.projection.width"
                raise ConfigError(
                    f"{name} must be a multiple of n_groups, was {width} and {norm.n_groups}"
                )
        if stack.reparametrisation is not None and self.initialisation.outputs == "zero":
            raise ConfigError(
                'initialisation.outputs must not be "zero" with '
                f"{type(stack.reparametrisation).__name__}, which divides a matrix by its size; "
                'take "plain" or "depth_scaled"'
            )

    @property
    def embedding_scale(self) -> float:
        """The factor of token embeddings."""
        if self.embedding.scaled:
            return math.sqrt(self.d_model)
        return 1.0 if self.embedding.multiplier is None else self.embedding.multiplier

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The encoder and the decoder, without the missing one."""
        return tuple(stack for stack in (self.encoder, self.decoder) if stack is not None)

    @property
    def token_width(self) -> int:
        """The features of a token's vector."""
        projection = self.embedding.projection
        return self.d_model if projection is None else projection.width

    @property
    def positions_width(self) -> int:
        """The features of positions that are added to the embedding."""
        projection = self.embedding.projection
        is_first = projection is not None and projection.place == "first"
        return self.d_model if is_first else self.token_width

    @property
    def input_norm_width(self) -> int:
        """The features of the norm of the input."""
        projection = self.embedding.projection
        is_last = projection is not None and projection.place == "last"
        return self.token_width if is_last else self.d_model

    @property
    def head_width(self) -> int:
        """The features that the matrix of the head reads."""
        transformed = isinstance(self.head, LanguageHead) and self.head.transform is not None
        return self.token_width if transformed else self.d_model

    @property
    def rows(self) -> int:
        """`vocab_size`, which must be known.

        Raises:
            ConfigError: it is not set yet.
        """
        if self.vocab_size is None:
            raise ConfigError(
                "model.vocab_size is not set: a run takes it from its tokenizer; without a text "
                "pass --set model.vocab_size=N"
            )
        return self.vocab_size
