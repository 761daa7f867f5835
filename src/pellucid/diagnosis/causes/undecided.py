"""What the records cannot tell: a reading is unusual, and fits a fault as well as a sound training.

Each says what would decide it. A note is given only where no cause is named.
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


def blind_policy(view: HistoryView) -> Candidate | None:
    """A policy that writes its answers itself, and whose rewards are not passed."""
    if not _has_no_rewards(view) or not view.first("answers.own"):
        return None
    if view.updates < limit("UNK002", "updates") or view.first("answers.agreement") is not None:
        return None
    return suspect("UNK002/unrewarded", n=view.updates, step=0)


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


def lowered_answers(view: HistoryView) -> Candidate | None:
    """A policy whose own answers are nearly all made less likely, with rewards that are not passed.

    Without a reward it does not show whether they were that bad, or their baseline too high.
    """
    lowered = view.first("answers.lowered")
    if lowered is None or lowered < limit("UNK002", "lowered") or not _has_no_rewards(view):
        return None
    return suspect("UNK002/lowered", lowered=lowered, step=0)


def level_answers(view: HistoryView) -> Candidate | None:
    """A policy whose own answers all weigh the same: no reward tells one from another."""
    level = view.first("answers.level")
    if level is None or level >= limit("UNK002", "level") or not view.first("answers.own"):
        return None
    return suspect("UNK002/level", level=level, step=0)


def slow_descent(view: HistoryView) -> Candidate | None:
    """Rewards that still rise, under plain gradient steps that hardly move the weights.

    Adam's steps have the size of the rate, and those of plain descent that of the gradient: a rate
    that suits one of them is a thousand times too small for the other.
    """
    distance, facts = view.distance, view.facts
    is_plain = facts.betas is None and facts.eps is None and facts.momentum is not None
    if distance is None or not facts.on_rewards or not is_plain:
        return None
    if view.updates < limit("UNK002", "updates") or distance >= limit("UNK002", "slow"):
        return None
    return suspect("UNK002/slow", n=view.updates, distance=distance, rate=view.rate)


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


def strange_tokens(view: HistoryView) -> Candidate | None:
    """Text that a trained model finds far less likely than one that guesses would."""
    of_prompts, trained = view.first("targets.prompt_nats"), view.first("weights.trained")
    # where prompts are paid for too, all of the text
    nats = view.first("targets.text_nats") if of_prompts is None else of_prompts
    if nats is None or view.guessing is None or (trained or 0.0) < limit("UNK002", "trained"):
        return None
    if nats < view.guessing + limit("UNK002", "worse") or view.first("weights.new_table"):
        return None
    text = "its text" if of_prompts is None else "the prompts"
    return suspect("UNK002/ids", text=text, nats=nats, guessing=view.guessing, step=0)


def shorter_steps(view: HistoryView) -> Candidate | None:
    """Steps of Adam that become far shorter at once, at the same rate, and stay so.

    Adam divides each gradient by its usual size, so the size of its steps follows the rate.
    """
    mark, rates = view.history.marks.get("stride"), dict(view.history.rates)
    if mark is None or view.facts.betas is None:
        return None
    points = [
        (step, value / rates[step])
        for step, value in zip(mark.steps, mark.values, strict=True)
        if rates.get(step) and value > 0
    ]
    least, factor = int(limit("UNK001", "steps")), limit("UNK001", "shorter")
    for i in range(least, len(points) - least + 1):
        before = [value for _, value in points[i - least : i]]
        after = [value for _, value in points[i : i + least]]
        if min(before) > factor * max(after):
            times = statistics.median(before) / statistics.median(after)
            return suspect("UNK001/steps", times=times, step=points[i][0])
    return None


CAUSES: tuple[Cause, ...] = (
    blind_climb,
    blind_steps_uphill,
    blind_small_steps,
    blind_policy,
    only_penalties,
    other_advantages,
    lowered_answers,
    level_answers,
    slow_descent,
    strange_choices,
    strange_answers,
    strange_tokens,
    shorter_steps,
)
