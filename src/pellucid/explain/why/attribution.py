"""The answer to "why this word": the difference of two logits as a sum of parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pellucid.catalogue import message
from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.why.types import (
    HeadReading,
    LayerShare,
    Part,
    Rivals,
    SourceShare,
    UnitShare,
)
from pellucid.typed import to_list

#: How far the sum may be from the difference, relative to the largest parts, by the dtype.
_TOLERANCES = {"float64": 1e-9, "float32": 1e-4}
_TOLERANCE_OF_OTHERS = 3e-2
#: How many units and readings are listed.
N_LISTED = 20


@dataclass(frozen=True)
class Attribution:
    """Why a model says a word rather than another one.

    `parts` adds up to `rivals.difference`, and so does `layers`. `held_scales` names all that is
    held at its value in this sentence. `units` and `sources` are the largest numbers within the
    parts.

    Attributes:
        rivals: both words, with their logits and probabilities.
        places: the tokens whose states the head reads.
        readings: what each head read from which token.
        dtype: of the model's weights, such as float32: it tells how much rounding there is.
    """

    rivals: Rivals
    places: list[int]
    parts: tuple[Part, ...]
    held_scales: tuple[str, ...]
    units: tuple[UnitShare, ...]
    readings: tuple[HeadReading, ...]
    dtype: str

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return sum(part.share for part in self.parts)

    @property
    def tolerance(self) -> float:
        """How far rounding in the model's dtype may bring the sum from the difference."""
        relative = _TOLERANCES.get(self.dtype, _TOLERANCE_OF_OTHERS)
        return relative * max(1.0, *(abs(part.share) for part in self.parts))

    @property
    def adds_up(self) -> bool:
        """Whether the parts add up to the model's difference."""
        return abs(self.total - self.rivals.difference) <= self.tolerance

    @property
    def layers(self) -> tuple[LayerShare, ...]:
        """The parts by layer, in the order of the model; it adds up as `parts` does."""
        shares: dict[str, float] = {}
        for part in self.parts:
            at_end = part.name.startswith(("final", "head", "classifier", "pooler"))
            outside_name = (
                message("why.after-the-layers") if at_end else message("why.before-the-layers")
            )
            name = outside_name if part.layer is None else f"{stack_letter(part.side)}{part.layer}"
            shares[name] = shares.get(name, 0.0) + part.share
        return tuple(LayerShare(name=name, share=share) for name, share in shares.items())

    @cached_property
    def largest(self) -> tuple[Part, ...]:
        """The parts, the largest first, whatever its sign."""
        return tuple(sorted(self.parts, key=lambda part: -abs(part.share)))

    @property
    def sources(self) -> tuple[SourceShare, ...]:
        """The largest readings: what one head took from one token."""
        all_sources = [source for reading in self.readings for source in reading.largest]
        return tuple(sorted(all_sources, key=lambda source: -abs(source.share))[:N_LISTED])

    def source_rows(self) -> dict[str, list[float]]:
        """By head: what it took from each token; a row adds up to the head's share.

        Anything else that a head writes, such as the output of a memory, is `Part.no_source`.
        """
        return {reading.name: to_list(reading.by_key) for reading in self.readings}
