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

from pellucid.catalogue import message
from pellucid.explain.trace_types import Trace
from pellucid.explain.why.attribution import N_LISTED, Attribution
from pellucid.explain.why.ending import find_ending
from pellucid.explain.why.rivals import find_rivals
from pellucid.explain.why.types import Word
from pellucid.explain.why.walk import Walk, walk_down


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
        held_scales.append(message("why.the-scales-of-the-norms"))
    return Attribution(
        rivals=rivals,
        places=ending.places,
        parts=(*reversed(walk.parts), *reversed(ending.constants)),
        held_scales=tuple(held_scales),
        units=tuple(sorted(walk.units, key=lambda unit: -abs(unit.share))[:N_LISTED]),
        readings=tuple(reversed(walk.heads)),
        dtype=trace.dtype,
    )
