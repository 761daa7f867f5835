"""The question "why this word" and its answer as values, for every display."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from torch import Tensor

from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.forward_pass import HeadPlace, Side

#: A word by its text, or by its token id; a class by its name.
Word = str | int
Method = Literal["zero", "mean", "resample", "patch"]
METHODS: tuple[Method, ...] = get_args(Method)
PartKind = Literal["embedding", "positions", "head", "feed-forward", "expert", "layer", "constant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the model, and what it adds to the difference of two logits.

    `name` is an address, such as L2.H1. `layer` is None before the first block and after the last.
    A "constant" is the same in every text: a bias, or the mean that a norm has stored. A "layer" is
    an attention or feed-forward that pellucid cannot take apart.

    `direction` is (tokens, features), for the tokens that the head reads: its product with what the
    part gives is the share. None for constants.
    """

    name: str
    kind: PartKind
    side: Side
    layer: int | None
    share: float
    head: int | None = None
    cross: bool = False
    #: what the head wrote that is no sum of weighted values: a memory, vectors of distances
    no_source: float = 0.0
    direction: Tensor | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceShare:
    """What one head took from one token: the weight, times what the token's value adds."""

    name: str
    query: int
    key: int
    weight: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitShare:
    """What one unit of a feed-forward adds: its value, times what its column of W adds."""

    name: str
    token: int
    value: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShare:
    """The sum of the parts of one layer, or of what comes before or after the layers."""

    name: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivals:
    """Two words, or two classes: the one that is asked about, and the other.

    `token` is where they are predicted; None if the model reads the text as a whole.
    `logits` are the model's, `uncapped` before a soft cap.
    """

    kind: Literal["word", "class"]
    token: int | None
    ids: tuple[int, int]
    names: tuple[str, str]
    logits: tuple[float, float]
    uncapped: tuple[float, float]
    probabilities: tuple[float, float]

    @property
    def difference(self) -> float:
        """The difference of the logits before a cap."""
        return self.uncapped[0] - self.uncapped[1]

    @property
    def after_cap(self) -> float:
        """The difference of the model's logits."""
        return self.logits[0] - self.logits[1]


def head_name(place: HeadPlace) -> str:
    """A head as addresses name it."""
    suffix = ".cross" if place.cross else ""
    return f"{stack_letter(place.side)}{place.layer}.H{place.head}{suffix}"


@dataclass(frozen=True, slots=True)
class HeadReading:
    """What one head took from each token: `by_key` (keys,) is the sum over the queries."""

    place: HeadPlace
    by_key: Tensor
    largest: tuple[SourceShare, ...]

    @property
    def name(self) -> str:
        """Such as L2.H1, or L2.H1.cross."""
        return head_name(self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One way to replace a part: the change that its share predicts, and the one that came."""

    method: Method
    attributed: float
    measured: float
    verdict: Literal["agrees", "sign", "factor", "small"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPart:
    """A part with its share, and what happens without it."""

    name: str
    share: float
    effects: tuple[Effect, ...]

    def verdict(self, method: Method) -> str:
        """Whether the measured change of a method is as attributed: see `Effect.verdict`."""
        return next(effect.verdict for effect in self.effects if effect.method == method)

    @property
    def disagrees(self) -> bool:
        """Whether a measured change has another sign than the attributed one, or another size."""
        return any(effect.verdict in ("sign", "factor") for effect in self.effects)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The largest parts, measured; `resampled_from` and `patched_from` say which texts."""

    parts: tuple[MeasuredPart, ...]
    difference: float
    resampled_from: str
    patched_from: str
    patched_pieces: tuple[str, ...]
    #: the difference in the contrast sentence
    contrast_difference: float
