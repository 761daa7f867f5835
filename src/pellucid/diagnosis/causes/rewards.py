"""Causes in a training on rewards: GRPO, PPO, RLOO and their kin."""

from __future__ import annotations

import math
import statistics

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect, suspect_mark
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.reward_gains import has_advantages
from pellucid.diagnosis.finding import Severity, limit
from pellucid.diagnosis.logs.statistics import ends, noise
from pellucid.vitals import Mark

#: Rows that are enough for an exact equality.
_LEAST_ROWS = 3
#: Fewer norms of gradients, and fewer readings of entropy, say nothing.
_LEAST_NORMS, _LEAST_READINGS = 5, 3


def equal_rewards(view: HistoryView) -> Candidate | None:
    """Updates without a gradient while learning from rewards."""
    norms, reward = view.history.grad_norms, view.late("reward")
    if not view.facts.on_rewards:
        return None
    share = _share_without_spread(view)
    if share is not None and share >= limit("RLH001", "groups"):
        level = "unknown" if reward is None else f"{reward:.3g}"
        which = "groups" if view.late("equal_groups") is None else "last groups"
        # answers that are all as good as they can be have no spread either
        severity = _severity_if_it_learns(view) or ("fault" if share == 1 else None)
        return suspect("RLH001/log", share=share, which=which, reward=level, severity=severity)
    if len(norms) < _LEAST_NORMS or share is not None:
        return None
    share = sum(norm < 1e-8 for _, norm in norms) / len(norms)
    if share < limit("RLH001", "share"):
        return None
    severity = "fault" if share == 1 else None  # then nothing at all is learnt
    return suspect("RLH001", share=share, step=norms[0][0], severity=severity)


def equal_answers(view: HistoryView) -> Candidate | None:
    """Answers to a prompt that are all the same text, so that all earn the same.

    The first batch shows it at once, and the ledger in each update. Copies that come with training
    are another matter: a policy that has learnt its task may write one answer.
    """
    alike = view.first("answers.alike")
    if not view.facts.on_rewards:
        return None
    if alike is not None and alike >= limit("RLH001", "alike"):
        return suspect("RLH001/alike", alike=alike, step=0)
    mark = view.often("copies", limit("RLH001", "share"))
    if mark is None or mark.first > limit("RLH001", "soon"):
        return None
    severity = _severity_if_it_learns(view) or _severity_if_they_differ(view)
    return suspect_mark("RLH001/copies", mark, _likely_from_start(mark), severity=severity)


def _likely_from_start(mark: Mark) -> float:
    """The likelihood of a cause that was there before the first update; steps may bring it too."""
    return 0.85 if mark.first <= _LEAST_ROWS else 0.65


def no_gradient(view: HistoryView) -> Candidate | None:
    """Updates in which every gradient is exactly 0, half of them or more: no answer was better."""
    mark = view.often("blank", limit("RLH001", "share"))
    if mark is None or not view.facts.on_rewards or mark.first > limit("RLH001", "soon"):
        return None
    if _has_judged_answers(view, mark):
        cut_off = view.late("cut_off") or 0.0
        if cut_off >= limit("RLH002", "share"):
            return suspect_mark("RLH002/left out", mark, cut_off=cut_off)
        return suspect_mark("GRD002/rewards", mark)
    if mark.share == 1 and _share_without_spread(view) is None and has_advantages(view):
        return suspect_mark("GRD002/advantages", mark)
    severity = _severity_if_it_learns(view) or ("fault" if mark.share == 1 else None)
    return suspect_mark("RLH001/blank", mark, _likely_from_start(mark), severity=severity)


def _has_judged_answers(view: HistoryView, blank: Mark) -> bool:
    """Whether answers to a prompt differ in reward where there is no gradient at all."""
    share = _share_without_spread(view)
    if share is not None:
        return share < limit("GRD002", "share") * blank.share
    return blank.first <= 1 and (view.first("answers.judged") or 0.0) > 0


def _share_without_spread(view: HistoryView) -> float | None:
    """The share of groups, or of rows, in which no answer was better than another."""
    groups = view.late("equal_groups")
    if groups is not None:
        return groups
    # a batch whose rewards are all equal has no group with a spread
    for kind in ("reward_spread", "advantage", "reward_deviation"):
        values = view.measure(kind)
        if len(values) >= _LEAST_ROWS:
            return sum(value == 0 for value in values) / len(values)
    return None


def lost_gradient(view: HistoryView) -> Candidate | None:
    """Gradients of exactly 0 in all rows whose answers differ in reward."""
    spreads, groups = (
        dict(view.history.measures.get(kind, ())) for kind in ("reward_spread", "equal_groups")
    )
    norms = {
        step: norm
        for step, norm in view.history.grad_norms
        if spreads.get(step, 0.0) > 0 and groups.get(step, 0.0) < limit("LOG006", "share")
    }
    is_cut_off = min(view.measure("cut_off"), default=0.0) == 1  # these may be left out on purpose
    # a row may hold the rewards of ten updates, and the norm of one whose answers were all alike
    is_sure = len(norms) >= _LEAST_ROWS or any(groups.get(step) == 0 for step in norms)
    if not view.facts.on_rewards or not is_sure or any(norms.values()) or is_cut_off:
        return None
    return suspect("LOG006/rewards", n=len(norms), norm=0.0)


def answers_cut_off(view: HistoryView) -> Candidate | None:
    """Answers that reach the largest length without an end, almost all of them."""
    shares, lengths = view.measure("cut_off"), view.measure("length")
    groups = view.measure("equal_groups")
    # one row is enough where no answer of a whole batch has an end, and none earns more
    all_rows = bool(shares) and bool(groups) and min(shares) == min(groups) == 1
    is_long = all_rows or len(shares) >= _LEAST_ROWS
    if is_long and (share := statistics.median(shares)) >= limit("RLH002", "share"):
        if lengths and max(lengths) == 1:  # a rising reward says nothing of a whole answer
            return suspect("RLH002/one", share=share, length=1.0)
        severity = _severity_if_it_learns(view) or _severity_if_they_differ(view)
        return suspect("RLH002", share=share, length=view.late("length"), severity=severity)
    if (candidate := _lost_ends(view)) is not None:
        return candidate
    is_constant = len(lengths) >= limit("RLH002", "rows") and len(set(lengths)) == 1
    if shares or not is_constant or lengths[0] < 2:
        return None
    return suspect(
        "RLH002/length",
        n=len(lengths),
        length=lengths[0],
        severity=_severity_if_it_learns(view),
    )


def _lost_ends(view: HistoryView) -> Candidate | None:
    """Answers that had an end when training began, and have none when it is over.

    A reward that rises is no comfort: it may pay for the length itself.
    """
    points = view.history.measures.get("cut_off", ())
    if len(points) < limit("RLH002", "rows") or not view.facts.on_rewards:
        return None
    start, end = ends(points)
    if start > limit("RLH002", "few") or end < limit("RLH002", "share"):
        return None
    return suspect("RLH002/lost", start=start, end=end, length=view.late("length"))


def _severity_if_it_learns(view: HistoryView) -> Severity | None:
    """A note if the reward rises: what is unusual does not hinder the policy then."""
    points = view.history.measures.get("reward", ())
    if len(points) < _LEAST_ROWS:
        return None
    start, end = ends(points, least=min(_LEAST_ROWS, len(points) // 2))
    return "note" if end > start + noise(view.measure("reward")) else None


def _severity_if_they_differ(view: HistoryView) -> Severity | None:
    """A note if answers differ in reward in most groups: then a reward does judge them."""
    share = _share_without_spread(view)
    return "note" if share is not None and share < limit("RLH002", "equal") else None


def reward_falls(view: HistoryView) -> Candidate | None:
    """A reward that fell for good."""
    points = view.history.measures.get("reward", ())
    if len(points) < limit("RLH003", "rows") or not view.facts.on_rewards:
        return None
    start, end = ends(points)
    values = view.measure("reward")
    lost = max(values) - min(values)
    least = max(limit("RLH003", "share") * lost, limit("RLH003", "noise") * noise(values))
    third = len(values) // 3
    middle = statistics.median(values[third : 2 * third])
    if start - end <= least or end > middle:
        return None
    return suspect("RLH003", start=start, end=end, fall=start - end, kl=view.late("kl"))


def bought_reward(view: HistoryView) -> Candidate | None:
    """One of several rewards that rose while another one was lost."""
    total = view.history.measures.get("reward", ())
    parts = {k: p for k, p in view.history.measures.items() if k.startswith("rewards/")}
    parts = {kind: points for kind, points in parts.items() if len(points) == len(total)}
    if len(parts) < 2 or len(total) < limit("RLH004", "rows"):
        return None
    changes, (total_start, total_end) = {k: ends(p) for k, p in parts.items()}, ends(total)
    loser, *_, winner = sorted(changes, key=lambda kind: changes[kind][1] - changes[kind][0])
    start, end = changes[loser]
    lost, spread = start - end, noise(view.measure(loser))
    chance = spread * math.sqrt(10 / len(total))  # of the medians of two fifths of the rows
    is_halved = end <= limit("RLH004", "left") * start and lost >= 3 * spread
    is_less = end <= limit("RLH004", "less") * start and lost >= limit("RLH004", "errors") * chance
    if start <= 0 or total_end <= total_start or not (is_halved or is_less):
        return None
    winner, loser = (kind.removeprefix("rewards/") for kind in (winner, loser))
    return suspect("RLH004", start=start, end=end, winner=winner, loser=loser)


def unpaid_reward(view: HistoryView) -> Candidate | None:
    """One of several rewards that never pays, although the others do."""
    if not view.facts.on_rewards or not any(view.measure("reward")):
        return None
    for kind in view.history.measures:
        values = view.measure(kind)
        if not kind.startswith("rewards/") or len(values) < limit("RLH005", "rows"):
            continue
        if not any(values):
            return suspect("RLH005", name=kind.removeprefix("rewards/"), n=len(values), paid=0.0)
    return None


def entropy_collapse(view: HistoryView) -> Candidate | None:
    """A policy that always writes the same, or that writes anything."""
    points = view.history.measures.get("entropy", ())
    readings = [reading.value for reading in view.readings("predictions.entropy")]
    paid = [read.value for read in view.readings("predictions.paid_entropy") if read.value >= 0]
    if not view.facts.on_rewards:
        return None
    if len(points) >= limit("RLH007", "rows"):
        start, end = ends(points)
    elif not points and len(paid) >= _LEAST_READINGS and 2 * paid[-2] < paid[0]:
        start, end = paid[0], paid[-1]  # each is of one batch, so the one before it has to agree
    elif not points and len(readings) >= _LEAST_READINGS:
        start, end = readings[0], max(readings[-2:])
    else:
        return None
    severity = _severity_if_it_learns(view)
    least = limit("RLH007", "least" if severity else "closed")
    if end < least and end < limit("RLH007", "share") * start:
        return suspect("RLH007", start=start, end=end, severity=severity)
    if end > limit("RLH007", "most") and end > start / limit("RLH007", "share"):
        return suspect("RLH007/rising", start=start, end=end)
    return None


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


def stale_log_ps(view: HistoryView) -> Candidate | None:
    """Ratios of new to old probabilities that are clipped, or far from 1."""
    clipped, ratio = view.late("clipped"), view.late("ratio")
    rows = view.history.measures.get("clipped", ())
    # a row of a log may be a mean of many updates
    is_first = bool(rows) and rows[0][0] <= 1 and view.first("answers.own") is not None
    if is_first and rows[0][1] >= limit("RLH009", "clipped"):
        return suspect("RLH009/first", clipped=rows[0][1], step=rows[0][0])
    if clipped is not None and clipped >= limit("RLH009", "clipped"):
        return suspect("RLH009", clipped=clipped, severity=_severity_if_it_learns(view))
    if ratio is None or (ratio > 0 and abs(math.log(ratio)) < math.log(limit("RLH009", "ratio"))):
        return None
    return suspect("RLH009/ratio", ratio=ratio)


CAUSES: tuple[Cause, ...] = (
    equal_rewards,
    equal_answers,
    no_gradient,
    lost_gradient,
    answers_cut_off,
    reward_falls,
    bought_reward,
    unpaid_reward,
    entropy_collapse,
    length_runs_away,
    stale_log_ps,
)
