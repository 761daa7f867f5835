"""Causes in a training on pairs of answers: DPO and its kin, and reward models.

Columns mean the same in every tool: a reward is beta times the change of an answer's log P against
the reference, and a margin is the chosen reward minus the rejected one.
"""

from __future__ import annotations

import math
import statistics

from pellucid.diagnosis.causes.candidate import Candidate, Cause, suspect, suspect_mark
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.pairing import COIN, opposite_rewards
from pellucid.diagnosis.causes.reference import compares_scores
from pellucid.diagnosis.finding import limit
from pellucid.diagnosis.logs.statistics import bend, ends, noise

#: Rows that are enough for an exact equality.
_LEAST_ROWS = 3
#: A weight is the one that a squared loss gives if they differ by less.
_EQUAL = 0.03


def no_preference(view: HistoryView) -> Candidate | None:
    """A preference loss that stays at ln 2, the loss of guessing."""
    end, margin = view.end, view.late("margin")
    if not view.facts.on_preferences or end is None:
        return None
    in_band = limit("PRF001", "low") < end < limit("PRF001", "high")
    if view.updates < limit("PRF001", "updates") or not in_band:
        return None
    if margin is not None and abs(margin) > limit("PRF001", "margin"):
        return None  # the mean of a loss hides what its margins show
    # margins that differ from row to row say that the model moves: it may only be slow
    deviation = 1.4826 * bend(view.losses) / math.sqrt(6)
    # and so it may be where a new head is to learn, whose scores begin near 0
    is_slow = deviation > limit("PRF001", "level") or compares_scores(view)
    severity = "note" if is_slow else None
    return suspect("PRF001", end=end, step=view.updates, severity=severity)


def exactly_a_coin(view: HistoryView) -> Candidate | None:
    """A loss of ln 2, exactly, at every update: both sides of each comparison are equal.

    It needs no column of preferences: other losses do not stay at ln 2 by chance. Without any
    gradient a few rows are enough.
    """
    losses, width = view.losses, limit("PRF001", "exact")
    norms = [norm for _, norm in view.history.grad_norms]
    is_still = len(norms) >= _LEAST_ROWS and not any(norms)
    least = _LEAST_ROWS if is_still else limit("PRF001", "exact_rows")
    if len(losses) < least or not all(abs(x - COIN) <= width for x in losses):
        return None
    return suspect("PRF001/exact", end=losses[-1], n=len(losses), step=view.steps[0])


def saturated(view: HistoryView) -> Candidate | None:
    """Gradients of exactly 0 while the loss is above that of guessing: some pairs are wrong.

    Pairs that are all told apart have no gradient either, and next to no loss.
    """
    mark = view.often("blank", limit("GRD002", "share"))
    is_wrong = view.end is not None and view.end > COIN + limit("PRF001", "margin")
    # two answers that are one text cancel each other
    if mark is None or not (view.facts.on_preferences and is_wrong) or view.first("answers.equal"):
        return None
    return suspect_mark("GRD002/pairs", mark, loss=view.end)


def unchanged_answers(view: HistoryView) -> Candidate | None:
    """A margin or a reward that rose, and greedy answers that did not change."""
    samples, gains = view.history.samples, view.gains
    n = len(gains) // 4
    if len(samples) < 2 or len({text for _, text in samples}) > 1 or not n:
        return None
    end = sum(gains[-n:]) / n
    rise = end - sum(gains[:n]) / n
    if rise < limit("PRF002", "risen"):
        return None
    key = "PRF002/margin" if view.facts.on_preferences else "PRF002/reward"
    return suspect(key, rise=rise, end=end, n=len(samples), step=samples[-1][0])


def no_difference(view: HistoryView) -> Candidate | None:
    """Pairs whose two answers are the same to the loss, or a policy that stays its reference."""
    log_ps = view.measure("chosen_logp")
    pairs = list(zip(log_ps, view.measure("rejected_logp"), strict=False))
    is_empty = bool(pairs) and not any(a or b for a, b in pairs)  # one such row is enough
    if is_empty or (len(pairs) >= _LEAST_ROWS and all(a == b for a, b in pairs)):
        key = "PRF003/no tokens" if is_empty else "PRF003/same"
        return suspect(key, n=len(pairs), log_p=log_ps[-1])
    margins, rewards = view.measure("margin"), view.measure("chosen_reward")
    rows = list(zip(margins, rewards, strict=False))
    if len(rows) < limit("PRF003", "rows") or any(a or b for a, b in rows):
        return None
    return suspect("PRF003", n=len(rows), margin=0.0)


def one_side(view: HistoryView) -> Candidate | None:
    """Answers that are all called good: a tool that logs each kind has logged one.

    Of answers that are judged alone (KTO), there are columns of those that a batch has.
    """
    rewards, is_of_kto = view.measure("chosen_reward"), bool(view.measure("kl"))
    others = view.measure("rejected_reward") or view.measure("margin")
    if len(rewards) < _LEAST_ROWS or others or not is_of_kto or view.first("answers.lowered"):
        return None
    return suspect("PRF003/one side", n=len(rewards), reward=rewards[-1])


def short_answers(view: HistoryView) -> Candidate | None:
    """Pairs of which many are one text twice, and most of the others differ by one token.

    Pairs that someone made to differ by their last token alone are never equal.
    """
    tail, equal = view.first("answers.tail"), view.first("answers.equal")
    if tail is None or equal is None or tail > limit("PRF003", "tail") or view.facts.on_rewards:
        return None
    if equal < limit("PRF003", "equal"):
        return None
    return suspect("PRF003/short", equal=equal, tail=tail, step=0)


def rejected_wins(view: HistoryView) -> Candidate | None:
    """Rejected answers that become likelier than chosen ones."""
    margins, accuracy = view.measure("margin"), view.late("accuracy")
    if len(margins) < limit("PRF004", "rows") or not view.facts.on_preferences:
        return None
    start, end = ends(view.history.measures["margin"])
    loses = accuracy is None or accuracy < limit("PRF004", "accuracy")
    # the end is the median of a fifth of the rows
    error = noise(margins) / math.sqrt(max(_LEAST_ROWS, len(margins) / 5))
    if -end < limit("PRF004", "errors") * error:
        return None  # a few pairs a row are below 0 by chance
    if not loses or end > -limit("PRF004", "margin") or end >= start:
        return None
    key = "PRF004/falling loss" if (view.end or COIN) < COIN else "PRF004"
    return suspect(key, start=start, end=end, accuracy=accuracy, loss=view.end)


def both_unlikely(view: HistoryView) -> Candidate | None:
    """Chosen answers that became far less likely than they were."""
    log_p, reward = view.history.measures.get("chosen_logp", ()), view.late("chosen_reward")
    if reward is None:
        return None
    if not log_p:
        return _fell_together(view, reward)
    if len(log_p) < limit("PRF005", "rows"):
        return None
    start, end = ends(log_p)
    fell = start - end > max(limit("PRF005", "nats"), limit("PRF005", "share") * abs(start))
    if not fell or reward > -limit("PRF005", "reward"):
        return None if _has_no_reference(view) else _fell_together(view, reward)
    return suspect("PRF005", start=start, end=end, fall=start - end, reward=reward)


def _fell_together(view: HistoryView, reward: float) -> Candidate | None:
    """Both answers fell by far more than what set them apart then, as their rewards say alone."""
    rewards, margins = view.measure("chosen_reward"), view.measure("margin")
    least, ratio = limit("PRF005", "reward"), limit("PRF005", "margins")
    if len(rewards) < limit("PRF005", "rows") or len(margins) != len(rewards) or reward > -least:
        return None
    if not view.measure("chosen_logp") and abs(rewards[0]) >= limit("REF001", "reward"):
        return None  # a loss without a reference calls log P a reward, which is never near 0
    size = len(rewards) // 4
    for start in range(0, 4 * size, size):
        quarter = slice(start, start + size)
        fallen, margin = statistics.median(rewards[quarter]), statistics.median(margins[quarter])
        if fallen < -max(least, ratio * abs(margin)):
            return suspect("PRF005/together", start=rewards[0], reward=reward, margin=margin)
    return None


def too_certain(view: HistoryView) -> Candidate | None:
    """Pairs without doubt: the model found a shortcut, or its steps are far too large."""
    margin, accuracy = view.late("margin"), view.late("accuracy")
    losses = view.losses[len(view.losses) // 2 :]
    if margin is None or not losses or not view.facts.on_preferences:
        return None
    certain = accuracy is None or accuracy >= limit("PRF006", "accuracy")
    loss = statistics.median(losses)
    if not certain or margin < limit("PRF006", "margin") or loss > limit("PRF006", "loss"):
        return None
    # pairs may be that easy, up to a margin that no sum of small steps brings
    severity = None if margin >= limit("PRF006", "beyond") else "note"
    return suspect(
        "PRF006", loss=loss, margin=margin, accuracy=accuracy, rate=view.rate, severity=severity
    )


def other_start(view: HistoryView) -> Candidate | None:
    """Rewards that are far from 0 at the start: the policy has not moved, its reference is another.

    It takes three rows of a warm-up, or pairs that weigh differently before the first update.
    Losses without a reference call the log P itself a reward: the two have one ratio, and pairs
    weigh in its order.
    """
    rewards = view.measure("chosen_reward")[:_LEAST_ROWS]
    uneven, explained = view.first("answers.uneven"), view.first("answers.explained")
    if len(rewards) < _LEAST_ROWS or _has_no_reference(view) or opposite_rewards(view):
        return None
    if explained is not None and explained >= limit("REF001", "explained"):
        return None
    is_uneven = explained is not None and (uneven or 0.0) > limit("REF001", "shifted")
    if (view.first("update.ratio") or 0.0) > limit("REF001", "moved"):
        return None  # the first update alone took the policy away
    if abs(rewards[0]) < limit("REF001", "reward"):
        return None
    is_still = _is_warm_up(view) and min(map(abs, rewards)) >= limit("REF001", "reward")
    if not (is_uneven or is_still):
        return None
    key = "REF001/uneven" if is_uneven else "REF001/log"
    return suspect(key, reward=rewards[0], uneven=uneven, step=0)


def _is_warm_up(view: HistoryView) -> bool:
    """Whether the first rows of rewards are from updates at a small rate."""
    points, rate_at = view.history.measures.get("chosen_reward", ()), dict(view.history.rates)
    # a row of rewards may come after many updates, each with a rate of its own
    rates = [rate_at[step] for step, _ in points[:_LEAST_ROWS] if step in rate_at]
    if len(rates) < _LEAST_ROWS or not view.rate:
        return False
    return rates == sorted(rates) and 0 <= rates[0] < limit("REF001", "warm_up") * view.rate


def _has_no_reference(view: HistoryView) -> bool:
    """Whether the first rewards are log P itself times a number: the loss knows no reference."""
    rewards, log_ps = view.measure("chosen_reward"), view.measure("chosen_logp")
    pairs = list(zip(rewards, log_ps, strict=False))[:_LEAST_ROWS]
    ratios = [reward / log_p for reward, log_p in pairs if log_p]
    is_constant = len(ratios) == _LEAST_ROWS
    return is_constant and max(ratios) - min(ratios) <= 0.02 * max(map(abs, ratios))


def unusual_beta(view: HistoryView) -> Candidate | None:
    """A beta far from usual ones, as the config says or as the first gradient shows.

    The gradient of -log sigmoid(beta z) by log P of an answer is beta sigmoid(-beta z), which is
    beta / 2 where the model is its reference.
    """
    configured, weight = view.measure("beta"), view.first("answers.weight")
    if not view.facts.on_preferences or not (configured or weight):
        return None
    if not configured and weight and view.start and _is_square(weight, view.start):
        return _small_square(view, 1 / weight)
    if not configured and view.coin is None:
        return None  # another loss than that of DPO, with other weights
    if not configured and (view.first("answers.uneven") or 0.0) > limit("REF001", "uneven"):
        return None  # pairs are decided already, and weigh less than beta / 2
    beta = configured[0] if configured else 2 * (weight or 0.0)
    # SimPO's beta weighs a mean over tokens, and is 2 to 10
    highest = limit("PRF007", "high_alone" if _has_no_reference(view) else "high")
    if limit("PRF007", "low") <= beta <= highest:
        return None
    return suspect("PRF007" if configured else "PRF007/gradient", beta=beta, step=0)


def _is_square(weight: float, start: float) -> bool:
    """Whether pairs weigh as in (margin - 1 / (2 beta))^2: twice the root of the first loss."""
    return math.isclose(weight, 2 * math.sqrt(max(start, 0.0)), rel_tol=_EQUAL)


def _small_square(view: HistoryView, beta: float) -> Candidate | None:
    """A margin of 1 / (2 beta) that no answer can have: the loss of IPO asks for exactly that."""
    if beta >= limit("PRF007", "low"):
        return None
    return suspect("PRF007/square", beta=beta, target=1 / (2 * beta), step=0)


CAUSES: tuple[Cause, ...] = (
    no_preference,
    exactly_a_coin,
    saturated,
    unchanged_answers,
    no_difference,
    one_side,
    short_answers,
    rejected_wins,
    both_unlikely,
    too_certain,
    other_start,
    unusual_beta,
)
