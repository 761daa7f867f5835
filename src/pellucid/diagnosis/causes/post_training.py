"""Causes after pre-training: the reference, preferences, rewards."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit


def _first_distance(view: HistoryView) -> float | None:
    return next((reading.value for reading in view.readings("reference.kl_start")), None)


def other_reference(view: HistoryView) -> Candidate | None:
    """A distance from the reference before the first update."""
    start = _first_distance(view)
    if start is None or start < limit("REF001", "start"):
        return None
    return suspect("REF001", start=start, step=0, severity=None if start > 0.01 else "warn")


def shared_reference(view: HistoryView) -> Candidate | None:
    """A distance from the reference that stays exactly 0."""
    readings = view.readings("reference.kl", after=int(limit("REF002", "updates")))
    moves = view.usual("update.ratio") or view.usual("update.kl_forward")
    if len(readings) < 2 or any(reading.value != 0 for reading in readings) or not moves:
        return None
    return suspect("REF002", updates=readings[-1].step, kl=0.0, step=readings[0].step)


def no_preference(view: HistoryView) -> Candidate | None:
    """A preference loss that stays at ln 2, the loss of guessing."""
    end = view.end
    if view.facts.objective != "DPO" or end is None:
        return None
    in_band = limit("PRF001", "low") < end < limit("PRF001", "high")
    if view.updates < limit("PRF001", "updates") or not in_band:
        return None
    return suspect("PRF001", end=end, step=view.updates)


def unchanged_answers(view: HistoryView) -> Candidate | None:
    """A margin or a reward that rose, and greedy answers that did not change."""
    samples, gains = view.history.samples, [value for _, value in view.history.gains]
    n = len(gains) // 4
    if len(samples) < 2 or len({text for _, text in samples}) > 1 or not n:
        return None
    end = sum(gains[-n:]) / n
    rise = end - sum(gains[:n]) / n
    if rise < limit("PRF002", "risen"):
        return None
    key = "PRF002/margin" if view.facts.objective == "DPO" else "PRF002/reward"
    return suspect(key, rise=rise, end=end, n=len(samples), step=samples[-1][0])


def equal_rewards(view: HistoryView) -> Candidate | None:
    """Updates without a gradient while learning from rewards."""
    norms = view.history.grad_norms
    if view.facts.objective != "PolicyGradient" or len(norms) < 10:
        return None
    share = sum(norm < 1e-8 for _, norm in norms) / len(norms)
    if share < limit("RLH001", "share"):
        return None
    return suspect("RLH001", share=share, step=norms[0][0])


CAUSES: tuple[Cause, ...] = (
    other_reference,
    shared_reference,
    Comparison(
        "REF003",
        "reference.kl",
        (">=", "kl"),
        look="last",
        condition=lambda view: (_first_distance(view) or 0.0) <= 1,
    ),
    no_preference,
    unchanged_answers,
    equal_rewards,
)
