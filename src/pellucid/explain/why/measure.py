"""The largest parts, really taken away or exchanged: the measured change, and the attributed one.

An attribution says what a part adds directly, with all else held. A measurement replaces the part
at every token and computes the rest of the model again: later parts see the change, and norms
rescale. Where both disagree, the part acts through others, or others step in for it.

Source:
    Wang et al. 2022, "Interpretability in the Wild" (mean ablation, patching, backup heads); Chan
    et al. 2022, "Causal Scrubbing" (resampling); McGrath et al. 2023, "The Hydra Effect".
"""

from __future__ import annotations

from torch import Tensor

from pellucid.explain.trace_types import Trace
from pellucid.explain.why.attribution import Attribution
from pellucid.explain.why.replace import Replacement, measure_differences, part_vectors
from pellucid.explain.why.texts import contrast_sentence, resample_sentence
from pellucid.explain.why.types import METHODS, Effect, MeasuredPart, Measurement, Method, Part

#: How many parts are measured.
N_MEASURED = 10
#: Both agree if their signs are the same and neither is more than this factor of the other.
FACTOR = 2.0
#: Changes smaller than this share of the difference are too small to compare.
_SMALL = 0.02


def measure(
    trace: Trace,
    attribution: Attribution,
    contrast: str | None = None,
    *,
    n_parts: int = N_MEASURED,
) -> Measurement:
    """Replace each of the largest parts, and measure the difference again.

    Heads, feed-forwards and experts are replaced at every token, the embedding and the position at
    the tokens that are read. Constants are left out: they are the same in every text.

    Args:
        attribution: the parts.
        contrast: the text to patch from, of as many tokens; a shuffled sentence by default.
        n_parts: how many parts to measure.

    Raises:
        PellucidError: the contrast has another number of tokens.
    """
    resampled, resample_name = resample_sentence(trace)
    contrasted, contrast_name = contrast_sentence(trace, contrast)
    others = {
        "resample": trace.with_sentence(resampled),
        "patch": trace.with_sentence(contrasted),
    }
    parts = [part for part in attribution.largest if part.kind != "constant"][:n_parts]
    replacements = [Replacement()]
    attributed: list[float] = []
    for part in parts:
        current = part_vectors(trace, part)
        for method in METHODS:
            vectors = _other_vectors(method, part, current, others)
            replacements.append(
                Replacement(part=part, vectors=vectors, places=_places(trace, attribution, part))
            )
            attributed.append(_predicted_change(attribution, part, vectors - current))
    before, *after = measure_differences(trace, attribution.rivals, replacements)
    (contrast_difference,) = measure_differences(
        others["patch"], attribution.rivals, [Replacement()]
    )
    effects = [
        _effect(METHODS[number % len(METHODS)], attributed[number], value - before, before)
        for number, value in enumerate(after)
    ]
    return Measurement(
        parts=tuple(
            MeasuredPart(
                name=part.name,
                share=part.share,
                effects=tuple(effects[number * len(METHODS) : (number + 1) * len(METHODS)]),
            )
            for number, part in enumerate(parts)
        ),
        difference=before,
        resampled_from=resample_name,
        patched_from=contrast_name,
        patched_pieces=contrasted.pieces,
        contrast_difference=contrast_difference,
    )


def _other_vectors(method: Method, part: Part, current: Tensor, others: dict[str, Trace]) -> Tensor:
    if method == "zero":
        return current.new_zeros(current.shape)
    if method == "mean":
        return current.mean(0, keepdim=True).expand_as(current)
    return part_vectors(others[method], part)


def _places(trace: Trace, attribution: Attribution, part: Part) -> list[int]:
    if part.kind in ("embedding", "positions"):
        return attribution.places
    return list(range(len(trace.ids)))


def _predicted_change(attribution: Attribution, part: Part, change: Tensor) -> float:
    """The change of the difference if the rest of the model stays as it is."""
    assert part.direction is not None
    return float((part.direction * change[attribution.places].double()).sum())


def _effect(method: Method, attributed: float, measured: float, difference: float) -> Effect:
    small = _SMALL * abs(difference)
    low, high = sorted((abs(attributed), abs(measured)))
    if high <= small:
        verdict = "small"
    elif attributed * measured < 0 and low > small:
        verdict = "sign"
    else:
        verdict = "factor" if high > FACTOR * max(low, small) else "agrees"
    return Effect(method=method, attributed=attributed, measured=measured, verdict=verdict)
