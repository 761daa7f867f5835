"""What the records cannot tell: a reading is unusual, and fits a fault as well as a sound training.

Each is a note that says what would decide it. None is given where a cause is named.
"""

from __future__ import annotations

import statistics

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit


def _has_no_rewards(view: HistoryView) -> bool:
    return bool(view.facts.on_rewards) and not view.measure("reward")


def blind_climb(view: HistoryView) -> Candidate | None:
    """An optimiser that climbs, in a training on rewards that are not passed."""
    is_known = view.first("answers.agreement") is not None
    if not view.facts.maximizes or not _has_no_rewards(view) or is_known:
        return None
    return suspect("UNK002/climbing", maximizes=True, step=0)


def blind_steps_uphill(view: HistoryView) -> Candidate | None:
    """Steps along the gradient, in a training on rewards that are not passed."""
    mark = view.often("uphill", limit("UNK002", "uphill"))
    if mark is None or not _has_no_rewards(view):
        return None
    return suspect("UNK002/uphill", share=mark.share, n=mark.n_seeable, step=mark.first)


def blind_small_steps(view: HistoryView) -> Candidate | None:
    """Weights that hardly moved, in a training on rewards that are not passed."""
    distance = view.distance
    if distance is None or not _has_no_rewards(view):
        return None
    if view.updates < limit("UNK002", "updates") or distance >= limit("UNK002", "still"):
        return None
    return suspect("UNK002/still", n=view.updates, distance=distance, rate=view.rate)


def only_penalties(view: HistoryView) -> Candidate | None:
    """Rewards that are never above 0, and rise."""
    rewards = view.measure("reward")
    is_low = len(rewards) >= limit("UNK002", "rows") and max(rewards) <= 0 and min(rewards) < 0
    if not view.facts.on_rewards or not is_low:
        return None
    half = len(rewards) // 2
    start, end = statistics.fmean(rewards[:half]), statistics.fmean(rewards[half:])
    return None if end <= start else suspect("UNK002/penalties", start=start, end=end)


def other_advantages(view: HistoryView) -> Candidate | None:
    """Advantages that follow the rewards no better than by chance, whatever becomes of these."""
    agreement = view.first("answers.agreement")
    if agreement is None or not view.facts.on_rewards:
        return None
    if not limit("RLH003", "agreement") < agreement < limit("UNK002", "agreement"):
        return None
    return suspect("UNK002/advantages", agreement=agreement, step=0)


def strange_choices(view: HistoryView) -> Candidate | None:
    """Pairs whose raised answer is the one that the model finds less likely."""
    share, gap, n = (view.first(f"answers.{name}") for name in ("stranger", "gap", "pairs"))
    if share is None or gap is None or n is None or not view.facts.on_preferences:
        return None
    if share < limit("UNK002", "stranger") or gap < limit("UNK002", "gap"):
        return None
    return suspect("UNK002/pairs", share=share, gap=gap, n=n, step=0)


def strange_answers(view: HistoryView) -> Candidate | None:
    """Answers that a model which knows its prompts finds far less likely than these."""
    prompts, answers = view.first("targets.prompt_nats"), view.first("targets.answer_nats")
    if prompts is None or answers is None or view.facts.on_rewards or view.facts.on_preferences:
        return None
    is_known = view.guessing is not None and prompts < view.guessing - limit("UNK002", "nats")
    if not is_known or answers - prompts < limit("UNK002", "nats"):
        return None
    return suspect("UNK002/form", prompts=prompts, answers=answers, step=0)


CAUSES: tuple[Cause, ...] = (
    blind_climb,
    blind_steps_uphill,
    blind_small_steps,
    only_penalties,
    other_advantages,
    strange_choices,
    strange_answers,
)
