"""What a scheme of positions states about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.model.facts.layers import UnknownFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPositionFacts:
    """The mask alone orders the tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedPositionFacts:
    """A row of `table` is added to each embedding; `table` is trained or fixed."""

    table: str
    learned: bool
    #: the row of the first token
    first_row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryFacts:
    """cos and sin rotate the first `n_rotated` features of queries and keys in pairs.

    Texts of more than `switch` tokens have other angles: those of `Rotary.tables(length)`.
    """

    n_rotated: int
    pairing: Literal["half_split", "interleaved"]
    cos: str = "cos"
    sin: str = "sin"
    switch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceBiasFacts:
    """Each score gets a number that depends on head and distance, by a slope or by buckets.

    `by` "key" it depends on the key's position, not on the distance, because it is rounded. If
    `scaled` it is multiplied by the scale of the scores.
    """

    rule: Literal["slope", "bucket"]
    by: Literal["distance", "key"] = "distance"
    scaled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceVectorFacts:
    """A trained vector per clipped distance is added to every key, and with `values` to values."""

    max_distance: int
    keys: str
    values: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DisentangledFacts:
    """Each score gets scale (q . P_k[r] + k . P_q[r]), where r is the row of the distance.

    P_k and P_q are the keys and queries of the rows of `table`, normalised by `norm`: made by a
    layer's own projections of content, or by `own_projections` beside them.
    """

    table: str
    norm: str
    #: whether there is the term q . P_k, and whether there is k . P_q
    content_to_position: bool
    position_to_content: bool
    own_projections: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternatingPositionFacts:
    """Layer i has the scheme `schemes[scheme_of_layer[i]]`: a module that states its own facts."""

    schemes: tuple[str, ...]
    scheme_of_layer: tuple[int, ...]


PositionPart = (
    NoPositionFacts
    | AddedPositionFacts
    | RotaryFacts
    | DistanceBiasFacts
    | DistanceVectorFacts
    | DisentangledFacts
    | UnknownFacts
)
