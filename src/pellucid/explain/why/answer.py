"""`trace.why`: the difference of two logits, as a sum of what each part of the model adds to it.

    z[word] - z[other] = (W[word] - W[other]) · norm(x),   x = embedding + sum of all sublayers

Hold the scale of the norm at its value in this sentence. Then the right side is a sum over parts:
the embedding, positions, each head through its part of the output projection, each feed-forward or
expert, and the biases. These are direct contributions: what a part changes in
later parts counts as theirs.

Source:
    Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", "The Residual Stream as
    a Communication Channel"; nostalgebraist 2020, "interpreting GPT: the logit lens".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pellucid.explain.addresses.syntax import stack_letter
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.ending import find_ending
from pellucid.explain.why.measure import Measurement, measure
from pellucid.explain.why.path_types import Paths
from pellucid.explain.why.paths import find_paths
from pellucid.explain.why.rivals import Word, find_rivals
from pellucid.explain.why.sublayers import HeadReading
from pellucid.explain.why.tree import Branch, grow_tree
from pellucid.explain.why.types import LayerShare, Part, Rivals, SourceShare, UnitShare
from pellucid.explain.why.walk import Walk, walk_down
from pellucid.typed import to_list

#: How far the sum may be from the difference, relative to the largest parts, by the dtype.
_TOLERANCES = {"float64": 1e-9, "float32": 1e-4}
_TOLERANCE_OF_OTHERS = 3e-2
#: How many units and readings are listed.
_N_LISTED = 20


@dataclass(frozen=True)
class Attribution:
    """Why a model says a word rather than another one.

    `parts` adds up to `rivals.difference`, and so does `layers`. `held_scales` names all that is
    held at its value in this sentence. `units` and `sources` are the largest numbers within the
    parts.
    """

    trace: Trace
    rivals: Rivals
    #: the tokens whose states the head reads
    places: list[int]
    parts: tuple[Part, ...]
    held_scales: tuple[str, ...]
    units: tuple[UnitShare, ...]
    readings: tuple[HeadReading, ...]

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return sum(part.share for part in self.parts)

    @property
    def tolerance(self) -> float:
        """How far rounding in the model's dtype may bring the sum from the difference."""
        relative = _TOLERANCES.get(self.trace.dtype, _TOLERANCE_OF_OTHERS)
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
            outside_name = "after the layers" if at_end else "before the layers"
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
        return tuple(sorted(all_sources, key=lambda source: -abs(source.share))[:_N_LISTED])

    def measure(self, contrast: str | None = None) -> Measurement:
        """Take away and exchange each of the largest parts, and measure the difference again.

        `contrast` is the text to patch from, of as many tokens; by default the same sentence with
        its tokens shuffled.

        Raises:
            PellucidError: the contrast has another number of tokens.
        """
        return measure(self, contrast)

    def paths(self) -> Paths:
        """Which token's information came by which heads.

        Raises:
            PellucidError: a part of the model states no facts.
        """
        return find_paths(self)

    def tree(self) -> Branch:
        """The paths as a tree: each branch is a part of its parent.

        Raises:
            PellucidError: a part of the model states no facts.
        """
        return grow_tree(self)

    def source_rows(self) -> dict[str, list[float]]:
        """By head: what it took from each token; a row adds up to the head's share.

        Anything else that a head writes, such as the output of a memory, is `Part.no_source`.
        """
        return {reading.name: to_list(reading.by_key) for reading in self.readings}


def find_why(
    trace: Trace, word: Word | None = None, rather_than: Word | None = None, *, token: int = -1
) -> Attribution:
    """Take the difference of two logits apart; see `Trace.why`.

    Args:
        trace: the sentence.
        word: the word, as text or as a token id, or the name of a class; the likeliest by default.
        rather_than: the other; the likeliest by default, or its runner-up.
        token: the token after which the word is predicted; the last by default.

    Raises:
        PellucidError: the model predicts no word and no class, or has a part that states no facts;
            the word is no single token; or both are the same.
    """
    rivals = find_rivals(trace, word, rather_than, token)
    ending = find_ending(trace, rivals)
    walk = Walk(
        trace=trace,
        side=trace.side,
        layer=trace.n_layers(trace.side),
        places=ending.places,
        direction=ending.direction,
    )
    walk_down(walk)
    held_scales = list(ending.held_scales)
    if walk.held_norms:
        held_scales.append("the scales of the norms between the parts and the end")
    return Attribution(
        trace=trace,
        rivals=rivals,
        places=ending.places,
        parts=(*reversed(walk.parts), *reversed(ending.constants)),
        held_scales=tuple(held_scales),
        units=tuple(sorted(walk.units, key=lambda unit: -abs(unit.share))[:_N_LISTED]),
        readings=tuple(reversed(walk.heads)),
    )
