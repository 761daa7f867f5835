"""Causes in the length of a policy's answers."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit
from pellucid.diagnosis.logs.statistics import ends, noise


def length_runs_away(view: HistoryView) -> Candidate | None:
    """Answers that became many times longer or shorter, for no more reward."""
    lengths, rewards = (view.history.measures.get(kind, ()) for kind in ("length", "reward"))
    if min(len(lengths), len(rewards)) < limit("RLH008", "rows"):
        return None
    (start, end), (old, new) = ends(lengths), ends(rewards)
    times = limit("RLH008", "times")
    if start <= 0 or end <= 0 or new > old + noise(view.measure("reward")):
        return None
    if max(end / start, start / end) < times:
        return None
    return suspect("RLH008", start=start, end=end, ratio=end / start, old=old, new=new)


def length_is_paid(view: HistoryView) -> Candidate | None:
    """Mean rewards that change from row to row as mean lengths do, and by nothing else.

    A reward of what answers say may favour long ones, but not by the same amount for each token.
    """
    lengths, rewards = (dict(view.history.measures.get(kind, ())) for kind in ("length", "reward"))
    steps = [step for step in lengths if step in rewards]
    changes = [
        (lengths[after] - lengths[before], rewards[after] - rewards[before])
        for before, after in pairwise(steps)
    ]
    changes = [(length, reward) for length, reward in changes if length or reward]
    if not view.facts.on_rewards or len(changes) < limit("RLH008", "changes"):
        return None
    if len({length for length, _ in changes}) < limit("RLH008", "kinds"):
        return None
    agreement = statistics.correlation(*zip(*changes, strict=True)) if _vary(changes) else 0.0
    start, end = next(iter(lengths.values())), ends(view.history.measures["length"])[1]
    is_longer = (end - start) * math.copysign(1.0, agreement) > 0
    if abs(agreement) < limit("RLH008", "agreement") or not is_longer:
        return None
    return suspect("RLH008/paid", agreement=agreement, start=start, end=end, n=len(changes))


def _vary(changes: list[tuple[float, float]]) -> bool:
    """Whether both columns have more than one value."""
    return all(len({*column}) > 1 for column in zip(*changes, strict=True))


CAUSES: tuple[Cause, ...] = (length_runs_away, length_is_paid)
