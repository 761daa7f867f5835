"""How a model learns the position of a token: one frozen class per scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, assert_never

from pellucid.config.checks import AtLeast, Checked, Count, Positive, check_turns, positive
from pellucid.config.norms import LayerNorm, RMSNorm
from pellucid.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPositions:
    """The model gets no positions; only the causal mask orders the tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(Checked):
    """One trained vector per position, added to the token embedding.

    The first token has row `offset` of the table, which has context_length + offset rows: 2 in OPT
    and BART, the padding id + 1 in RoBERTa.
    """

    offset: Annotated[int, AtLeast(0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sinusoidal(Checked):
    """Fixed sines and cosines of the position, added to the token embedding.

    "interleaved" puts each cosine next to its sine, "half_split" all sines before all cosines. The
    first token has position `offset`. `down_to_base`: the slowest frequency is 1 / base itself, as
    in tensor2tensor and fairseq.
    """

    base: Positive
    pairing: Literal["interleaved", "half_split"] = "interleaved"
    offset: Annotated[int, AtLeast(0)] = 0
    down_to_base: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShawRelative(Checked):
    """A trained vector per distance to `max_distance`, added to keys, and if `values` to values."""

    max_distance: Count
    values: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketedBias(Checked):
    """A trained number per head and bucket of distances, added to the scores, as in T5.

    Half of the buckets hold one distance each, the others grow with the logarithm up to
    `max_distance`. An encoder uses half of them for each direction. The layers share the numbers;
    with `per_layer` each has its own, as in umT5.
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

    The vectors are as wide as the model, the same in all layers, and normalised by `norm`.
    `content_to_position`: queries meet the distances' keys; `position_to_content`: keys meet the
    distances' queries. The layers' own projections of content make these, or with
    `own_projections` matrices of their own. There are `n_buckets` vectors, half for each direction,
    and longer distances share the last; with `max_distance` half of them hold one distance each,
    and the others grow with the logarithm.

    The scores have up to three terms: set `attention.scale` to 1 / sqrt(d_head x terms).
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
class LinearScaling(Checked):
    """Positions divided by `factor`: position interpolation."""

    factor: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class NTKScaling(Checked):
    """A larger base, so that the slowest angle is divided by `factor` and the fastest stays."""

    factor: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class YaRN(Checked):
    """Slow angles divided by `factor`, fast ones kept, a ramp between them.

    `beta_fast` and `beta_slow` are turns within `original_context_length` at which the ramp
    starts and ends. cos and sin are multiplied by `attention_factor`.
    """

    factor: Positive
    original_context_length: Count
    beta_fast: float
    beta_slow: Positive
    attention_factor: Positive
    #: whether the ends of the ramp are rounded to whole features
    truncated: bool = True

    def _check(self) -> None:
        if self.beta_fast <= self.beta_slow:
            raise ConfigError(
                f"beta_fast must be greater than beta_slow, was {self.beta_fast} and "
                f"{self.beta_slow}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling(Checked):
    """As YaRN, the ramp given by wave lengths as shares of `original_context_length`."""

    factor: Positive
    low_frequency_factor: Positive
    high_frequency_factor: float
    original_context_length: Count

    def _check(self) -> None:
        if self.high_frequency_factor <= self.low_frequency_factor:
            raise ConfigError(
                "high_frequency_factor must be greater than low_frequency_factor, was "
                f"{self.high_frequency_factor} and {self.low_frequency_factor}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicNTK(Checked):
    """`NTKScaling` of texts longer than `original_context_length`, and none of others.

    A text of n tokens has the factor `factor` n / original_context_length - (`factor` - 1), so
    every angle depends on the length of the text so far.
    """

    factor: Annotated[float, AtLeast(1)]
    original_context_length: Count


def _positive_factors(name: str, values: tuple[float, ...]) -> None:
    for value in values:
        positive(name, value)


_Factors = Annotated[tuple[float, ...], _positive_factors]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRoPE(Checked):
    """Each angle divided by a factor of its own; a text that is long has other factors.

    `short`: for texts of up to `original_context_length` tokens. `long`: for every token of a
    longer text. cos and sin are multiplied by `attention_factor`.
    """

    short: _Factors
    long: _Factors
    original_context_length: Count
    attention_factor: Positive

    def _check(self) -> None:
        if len(self.short) != len(self.long):
            raise ConfigError(
                f"short and long must have as many factors, was {len(self.short)} and "
                f"{len(self.long)}: one for each pair of rotated features"
            )


#: How rotary positions are stretched to longer texts.
RotaryScaling = LinearScaling | NTKScaling | YaRN | Llama3Scaling | DynamicNTK | LongRoPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary(Checked):
    """Queries and keys rotated by an angle that grows with the position.

    "half_split" pairs feature i with i + n / 2, "interleaved" with its neighbour. The first
    `n_features` of each head are rotated (default: all).
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

    The smallest slope of a power of two of heads is 2^-max_exponent. `scaled`: the penalty is
    multiplied by the factor of the scores, too. `rounded`: slopes, and their products with the
    keys' positions, are bfloat16, as in Falcon; beyond 256 tokens that is not the same penalty.
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

    With `first`, the first layers have those, one each, and the turns begin after them. Schemes
    that change the embedding act before all layers, so they cannot take turns.
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
