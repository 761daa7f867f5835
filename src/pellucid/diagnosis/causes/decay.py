"""Weight decay that takes too much, or what it should not."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit

#: Fewer looks at the weights are no course of them.
_MIN_READINGS = 4


def heavy_decay(view: HistoryView) -> Candidate | None:
    """Weights that shrink, at a product of rate and decay that explains it."""
    decay, rate = view.facts.weight_decay, view.rate
    if not decay or not rate or rate * decay < limit("OPT010", "product"):
        return None
    shrunk = [
        (id, last / first)
        for id in ("weights.size", "embeddings.rms")
        if (first := view.first(id)) and (last := view.last(id)) is not None
    ]
    least = min((ratio for _, ratio in shrunk), default=None)
    if len(view.readings("weights.size")) < _MIN_READINGS and decay > limit("OPT010", "decay"):
        return _capped(view, decay)
    if least is None or least > limit("OPT010", "shrunk"):
        return None
    return Candidate(
        code="OPT010",
        likely=0.92,
        what=f"Weights have shrunk to {least:.2g} of their size; decay takes {rate * decay:.1%} of "
        "them in each update.",
        clues=clue("OPT010", "learning rate x weight decay", rate * decay)
        + tuple(
            evidence
            for id, ratio in shrunk
            for evidence in clue("OPT010", f"{id}, of its first", ratio)
        ),
        where="optimiser.weight_decay",
        step=None,
    )


def _capped(view: HistoryView, decay: float) -> Candidate | None:
    """Decay that leaves no weight room, where too little was seen to see weights shrink."""
    if view.facts.optimiser not in ("Adam", "AdamW") or view.goes_well:
        return None
    return Candidate(
        code="OPT010",
        likely=0.85,
        what=f"Weight decay is {decay:g}: under Adam no weight stays above 1 / {decay:g}.",
        clues=clue("OPT010", "weight decay", decay),
        where="optimiser.weight_decay",
        step=None,
    )


def decayed_gains(view: HistoryView) -> Candidate | None:
    """Gains that fall while decay takes all parameters."""
    low = view.last("norm.gain_low")
    first = view.first("norm.gain_low")
    decay = (view.facts.weight_decay or 0) * sum(v for _, v in view.history.rates)
    if view.facts.decays != "all" or decay < 0.2 or low is None or first is None or first < 0.9:
        return None
    if low > limit("OPT011", "gain"):
        return None
    return Candidate(
        code="OPT011",
        likely=0.85,
        what=f"The smallest gain of a norm went from {first:.2g} to {low:.2g}; weight decay takes "
        "gains too.",
        clues=clue("OPT011", "norm.gain_low", low),
        where=view.readings("norm.gain_low")[-1].where,
        step=view.readings("norm.gain_low")[-1].step,
    )


CAUSES = (heavy_decay, decayed_gains)
