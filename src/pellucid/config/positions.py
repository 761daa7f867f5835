"""How a model learns the position of a token: one frozen class per scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, assert_never

from pellucid.config.checks import AtLeast, Checked, Count, Positive, check_turns
from pellucid.config.norms import LayerNorm, RMSNorm
from pellucid.config.rotary_scaling import RotaryScaling
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPositions:
    """The model gets no positions; only the causal mask orders the tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(Checked):
    """One trained vector per position, added to the token embedding.

    The table has context_length + offset rows.

    Attributes:
        offset: the row of the first token: 2 in OPT and BART, the padding id + 1 in RoBERTa.
    """

    offset: Annotated[int, AtLeast(0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinusoidal(Checked):
    """Fixed sines and cosines of the position, added to the token embedding.

    Attributes:
        base: the base of the frequencies, 10000 in the paper.
        pairing: where the cosine of a sine is: next to it ("interleaved"), or after all sines
            ("half_split").
        offset: the position of the first token.
        down_to_base: whether the slowest frequency is 1 / base itself, as in tensor2tensor and
            fairseq.
    """

    base: Positive
    pairing: Literal["interleaved", "half_split"] = "interleaved"
    offset: Annotated[int, AtLeast(0)] = 0
    down_to_base: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShawRelative(Checked):
    """A trained vector per distance, added to the keys.

    Attributes:
        max_distance: the largest distance with a vector of its own.
        values: whether a vector is added to the values too.
    """

    max_distance: Count
    values: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketedBias(Checked):
    """A trained number per head and bucket of distances, added to the scores, as in T5.

    Half of the buckets hold one distance each, the others grow with the logarithm. An encoder uses
    half of them for each direction.

    Attributes:
        n_buckets: how many buckets; even.
        max_distance: from which distance all share the last bucket: more than half of `n_buckets`.
        per_layer: whether each layer has a table of its own, as in umT5, or all share one.
    """

    n_buckets: Annotated[int, AtLeast(4)]
    max_distance: int
    per_layer: bool = False

    def _check(self) -> None:
        if self.n_buckets % 2:
            raise ConfigError(f"n_buckets must be even, was {self.n_buckets}")
        if self.max_distance <= self.n_buckets // 2:
            raise ConfigError(
                f"max_distance must be greater than half of n_buckets, was {self.max_distance} "
                f"and {self.n_buckets}: the other half of the buckets would be empty"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Disentangled(Checked):
    """Content meets distance in the scores, as in DeBERTa: each distance has a vector.

    The vectors are as wide as the model and the same in all layers. The vector's key meets the
    query, and its query the key. The scores have up to three terms: set `attention.scale` to 1 /
    sqrt(d_head x terms).

    Attributes:
        n_buckets: how many vectors, half for each direction; even. Longer distances share the last.
        max_distance: with it, half of the vectors hold one distance each, and the others grow with
            the logarithm up to it: more than a quarter of `n_buckets` + 1. Absent, each distance
            has a vector of its own.
        content_to_position: whether the queries of tokens meet the keys of distances.
        position_to_content: whether the keys of tokens meet the queries of distances; at least one
            of the two.
        own_projections: whether each layer has matrices for the vectors of distances, or uses those
            of the tokens.
        norm: of the vectors of distances.
    """

    n_buckets: Annotated[int, AtLeast(2)]
    max_distance: Count | None = None
    content_to_position: bool
    position_to_content: bool
    own_projections: bool
    norm: LayerNorm | RMSNorm | None = None

    def _check(self) -> None:
        if self.n_buckets % 2:
            raise ConfigError(f"n_buckets must be even, was {self.n_buckets}")
        if not (self.content_to_position or self.position_to_content):
            raise ConfigError(
                "Disentangled needs content_to_position, position_to_content or both: without them "
                "distances change nothing; take NoPositions"
            )
        if self.max_distance is None:
            return
        exact = self.n_buckets // 4
        if exact < 1 or self.max_distance <= exact + 1:
            raise ConfigError(
                f"max_distance must be greater than n_buckets / 4 + 1, and n_buckets at least 4, "
                f"was {self.max_distance} and {self.n_buckets}; leave max_distance out to give "
                "each distance its own vector"
            )

    @property
    def n_terms(self) -> int:
        """The terms of a score: content with content, and the ones with distances."""
        return 1 + self.content_to_position + self.position_to_content


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary(Checked):
    """Queries and keys rotated by an angle that grows with the position.

    Attributes:
        base: the base of the frequencies, 10000 in the paper.
        pairing: which features are a pair: i and i + n / 2 ("half_split"), or neighbours
            ("interleaved").
        n_features: how many features of each head rotate, from the first; even. Absent, all, and
            then `d_head` must be even.
        scaling: how angles change for texts longer than in training.
    """

    base: Positive
    pairing: Literal["half_split", "interleaved"] = "half_split"
    n_features: int | None = None
    scaling: RotaryScaling | None = None

    def _check(self) -> None:
        if self.n_features is not None and (self.n_features < 2 or self.n_features % 2):
            raise ConfigError(
                f"n_features must be even and at least 2, was {self.n_features}: "
                "Rotary rotates pairs of features"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ALiBi(Checked):
    """A penalty that grows with the distance, added to the scores; each head has its slope.

    Attributes:
        max_exponent: the smallest slope of a power of two of heads is 2 to minus this power (MPT's
            `alibi_bias_max`).
        scaled: whether the factor of the scores multiplies the penalty too, as in Falcon.
        rounded: whether slopes, and their products with the keys' positions, are rounded to
            bfloat16, as in Falcon; beyond 256 tokens that is not the same penalty.
    """

    max_exponent: Positive = 8.0
    scaled: bool = False
    rounded: bool = False


#: Positions that are alike in all layers.
OnePositions = (
    NoPositions | Learned | Sinusoidal | ShawRelative | BucketedBias | Disentangled | Rotary | ALiBi
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternatingPositions(Checked):
    """The layers have these schemes in turn: for example two bases, or rotation in some layers.

    `Learned`, `Sinusoidal` and `Disentangled` cannot take turns.

    Attributes:
        layers: the schemes that take turns.
        first: the schemes of the first layers, one each; the turns begin after them.
    """

    layers: tuple[OnePositions, ...]
    first: tuple[OnePositions, ...] = ()

    def _check(self) -> None:
        check_turns(self, self.layers, self.first)
        for scheme in (*self.first, *self.layers):
            if isinstance(scheme, Learned | Sinusoidal):
                raise ConfigError(
                    f"AlternatingPositions must not have {type(scheme).__name__}: it changes the "
                    "embedding, before the first layer; take Rotary, ALiBi, BucketedBias, "
                    "ShawRelative or NoPositions, which act within a layer"
                )
            if isinstance(scheme, Disentangled):
                raise ConfigError(
                    "AlternatingPositions must not have Disentangled: every layer makes queries "
                    "and keys of its distances; name it itself"
                )


#: How a stack knows the order of tokens.
Positions = OnePositions | AlternatingPositions


def adds_to_scores(positions: OnePositions) -> bool:
    """Whether a scheme adds a number to each score; linear attention forms no scores."""
    match positions:
        case ShawRelative() | BucketedBias() | Disentangled() | ALiBi():
            return True
        case NoPositions() | Learned() | Sinusoidal() | Rotary():
            return False
        case _:
            assert_never(positions)
