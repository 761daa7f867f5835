"""Weight decay that is too strong, or shrinks the wrong parameters."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit

#: With fewer readings of the weights, their course is unknown.
_MIN_READINGS = 4


def heavy_decay(view: HistoryView) -> Candidate | None:
    """Weights that shrink, with a product of rate and decay that explains it."""
    decay, rate = view.facts.weight_decay, view.rate
    if not decay or not rate or rate * decay < limit("OPT010", "product"):
        return None
    size, rms = _shrinkage(view, "weights.size"), _shrinkage(view, "embeddings.rms")
    least = min((ratio for ratio in (size, rms) if ratio is not None), default=None)
    if len(view.readings("weights.size")) < _MIN_READINGS and decay > limit("OPT010", "decay"):
        # too few readings to see weights shrink
        is_adam = view.facts.optimiser in ("Adam", "AdamW")
        return suspect("OPT010/limit", decay=decay) if is_adam and not view.goes_well else None
    if least is None or least > limit("OPT010", "shrunk"):
        return None
    return suspect("OPT010", least=least, decay=rate * decay, size=size, rms=rms)


def _shrinkage(view: HistoryView, id: str) -> float | None:
    """The ratio of a sign's last value to its first."""
    first, last = view.first(id), view.last(id)
    return last / first if first and last is not None else None


def decayed_gains(view: HistoryView) -> Candidate | None:
    """Gains that fall while decay shrinks all parameters."""
    gain, first = view.last("norm.gain_low"), view.first("norm.gain_low")
    decay = (view.facts.weight_decay or 0) * sum(v for _, v in view.history.rates)
    if view.facts.decays != "all" or decay < 0.2 or gain is None or first is None or first < 0.9:
        return None
    if gain > limit("OPT011", "gain"):
        return None
    last = view.readings("norm.gain_low")[-1]
    return suspect("OPT011", first=first, gain=gain, place=last.place, step=last.step)


CAUSES = (heavy_decay, decayed_gains)
