"""What blocks, stacks and output heads state about themselves, and the union of all facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.model.facts.layers import (
    ActivationName,
    AttentionPart,
    DropoutFacts,
    EmbeddingFacts,
    FeedForwardPart,
    GateFacts,
    IdentityFacts,
    LinearPart,
    NormPart,
    RouterFacts,
    UnknownFacts,
)
from pellucid.model.facts.positions import (
    AlternatingPositionFacts,
    PositionPart,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualFacts:
    """How a layer f joins the stream x: carried * x + multiplier * f, and the place of the norm.

    The norm acts on f's input ("input"), on its output ("output"), on both ("sandwich"), or on the
    sum ("sum"). With `carried` 0 nothing bypasses the layer.
    """

    norm: Literal["input", "output", "sandwich", "sum"]
    carried: float = 1.0
    multiplier: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFacts:
    """Attention and feed-forward one after the other, or in "parallel" from one state.

    A decoder that reads an encoder has `cross_attention` between them. With `shared_norm` both
    layers of a parallel block read the output of the attention's norm.
    """

    order: Literal["sequential", "parallel"]
    residual: ResidualFacts | UnknownFacts
    dropout: float
    cross_attention: str | None = None
    shared_norm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """Blocks one after another; in a causal stack no token sees later ones.

    `owners` has for each block the first one with its weights: blocks may share them. Before the
    first block come positions, a norm and, in some models, a linear map of the embedding to
    d_model.
    """

    n_blocks: int
    causal: bool
    owners: tuple[int, ...]
    #: positions added to the embedding besides the layers' own scheme
    embedding_positions: str | None = None
    input_projection: str | None = None
    #: whether that map comes before positions, between positions and norm, or last
    projection_place: Literal["first", "before_norm", "last"] = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerFacts:
    """A pellucid model: scaled token embeddings plus embeddings of `n_segments` segments, stacks.

    The head reads the decoder if there is one; an "encoder_decoder" reads one text and writes
    another.
    """

    stacks: Literal["decoder", "encoder", "encoder_decoder"]
    context_length: int
    embedding_scale: float
    n_segments: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadTransformFacts:
    """norm(activation(dense(x))), before the matrix of a head: `width` features.

    `activation` is None if it is a function of the user's own.
    """

    width: int
    activation: ActivationName | Literal["identity"] | None
    dense: str = "dense"
    norm: str = "norm"


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageHeadFacts:
    """A logit per token of the vocabulary: cap(W (scale transform(x)) + b)."""

    tied: bool
    bias: bool
    transform: HeadTransformFacts | IdentityFacts | UnknownFacts
    scale: float
    soft_cap: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationHeadFacts:
    """A logit per class of a text, from one vector: the first, last or mean state.

    If `pooler`, the vector goes through a dense layer and tanh first. Then follows `transform`.
    """

    n_classes: int
    pooling: Literal["first", "mean", "last"]
    pooler: bool
    bias: bool
    dropout: float
    transform: HeadTransformFacts | IdentityFacts | UnknownFacts
    #: before the transform
    input_dropout: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NoHeadFacts:
    """The model gives hidden states, and no logits."""


ResidualPart = ResidualFacts | UnknownFacts
BlockPart = BlockFacts | UnknownFacts
StackPart = StackFacts | UnknownFacts
ModelPart = TransformerFacts | UnknownFacts
TransformPart = HeadTransformFacts | IdentityFacts | UnknownFacts
HeadPart = LanguageHeadFacts | ClassificationHeadFacts | NoHeadFacts | UnknownFacts
PartFacts = (
    NormPart
    | AttentionPart
    | FeedForwardPart
    | PositionPart
    | LinearPart
    | BlockPart
    | HeadPart
    | TransformPart
    | GateFacts
    | RouterFacts
    | EmbeddingFacts
    | DropoutFacts
    | AlternatingPositionFacts
    | StackPart
    | ModelPart
)
