"""Causes of a policy that gains nothing from its rewards, once its training is over.

A gain is measured in standard deviations of the rewards within a group: their unit does not matter.
"""

from __future__ import annotations

import statistics

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison, suspect, suspect_mark
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.reference import charged_beta
from pellucid.diagnosis.causes.reward_gains import PARTS, Rewards, follows_length, rewards_of
from pellucid.diagnosis.finding import limit
from pellucid.diagnosis.logs.statistics import ends, noise

#: The noise of rewards is known from so many rows on.
_NOISY = 8
#: Pages of the ledger that show a change.
_FEW_READINGS = 2
#: The first losses, before steps have moved the policy.
_EARLY = 3


def _stays(view: HistoryView) -> Rewards | None:
    """The rewards, if no later part of the training has gained anything."""
    rewards = rewards_of(view)
    if rewards is None or max(rewards.gain, rewards.largest_gain) >= limit("RLH012", "gain"):
        return None
    is_noise_known = len(view.measure("reward")) >= _NOISY
    return None if is_noise_known and not _is_by_chance(rewards) else rewards


def _is_by_chance(rewards: Rewards) -> bool:
    """Whether the noise of the rewards explains how far they rose."""
    return rewards.errors is None or rewards.errors <= limit("RLH012", "errors")


def _is_still(view: HistoryView) -> bool:
    """Whether the rewards neither fall nor rise but by chance: what does not move can do neither.

    The best of several parts is above the first one by chance, too.
    """
    rewards = rewards_of(view)
    if rewards is None or rewards.gain <= -limit("RLH012", "gain"):
        return False
    return _stays(view) is not None or (rewards.errors is not None and _is_by_chance(rewards))


def flat_reward(view: HistoryView) -> Candidate | None:
    """Rewards that are no higher in any later part of a whole training than at its start."""
    rewards = _stays(view)
    if rewards is None:
        return None
    if rewards.gain < -limit("RLH003", "lost"):
        end, fall = rewards.best, rewards.start - rewards.best
        return suspect("RLH003", start=rewards.start, end=end, fall=fall, kl=view.late("kl"))
    # between two and three standard errors the best of three parts may have risen, or not
    is_noise_known = len(view.measure("reward")) >= _NOISY
    is_open = is_noise_known and (rewards.errors or 0.0) > limit("RLH012", "open")
    severity = "note" if is_open else None
    key = "RLH012/means" if rewards.is_of_means else "RLH012"
    return suspect(key, n=view.updates, severity=severity, **rewards._asdict())


def _rows_with_spread(view: HistoryView) -> list[bool]:
    """Whether some answer was better than another, row by row."""
    groups = view.measure("equal_groups")
    if groups:
        return [share < 1 for share in groups]
    return [spread > 0 for spread in view.measure("reward_spread")]


def lost_spread(view: HistoryView) -> Candidate | None:
    """Rewards that differed in the first rows alone, and did not rise: the policy lost them.

    By chance, k rows with a spread all lie in the first share q of the rows with odds of q^k. Where
    answers became copies of each other, it is the policy's entropy that is gone.
    """
    rows, rewards = _rows_with_spread(view), view.measure("reward")
    last = max((row for row, has_spread in enumerate(rows, 1) if has_spread), default=0)
    n, size = len(rows), len(rewards) // PARTS
    if not view.facts.on_rewards or n < limit("RLH003", "rows") or not size or not last:
        return None
    chance = (last / n) ** sum(rows)
    start, end = statistics.fmean(rewards[:last]), statistics.fmean(rewards[-size:])
    if 2 * last > n or chance > limit("RLH003", "chance") or end >= start:
        return None
    copies = view.often("copies", limit("RLH001", "share"))
    if copies is not None and copies.first > 1:
        return suspect_mark("RLH007/copies", copies)
    return suspect("RLH003/gone", n=last, rest=n - last, start=start, end=end)


def lost_old_log_ps(view: HistoryView) -> Candidate | None:
    """A loss that grew far beyond what advantages alone can make of it.

    With ratios near 1 a policy's loss is a mean of advantages at most: its first gradient says how
    large these are. Ratios that ran away, or another term, make the rest.
    """
    weight, lengths = view.first("answers.weight"), view.measure("length")
    tokens = statistics.fmean(lengths[:3]) if lengths else view.first("batch.length")
    losses = [abs(loss) for loss in view.losses]
    if not view.facts.on_rewards or not weight or not tokens or len(losses) < _NOISY:
        return None
    spreads = view.measure("reward_spread")
    if spreads and spreads[0] <= limit("RLH009", "usual") * statistics.fmean(spreads):
        return None  # where the first answers earn the same, their advantages say nothing
    advantage = 2 * weight * tokens  # raised and lowered answers weigh the same in all
    early, late = max(losses[:_EARLY]), statistics.median(losses[len(losses) // 2 :])
    if early > limit("RLH009", "early") * advantage or late < limit("RLH009", "loss") * advantage:
        return None
    return suspect("RLH009/loss", late=late, early=early, advantage=advantage)


def large_beta(view: HistoryView) -> Candidate | None:
    """A beta at which the best policy hardly differs from its reference.

    The best policy of E[A] - beta KL is its reference times exp(A / beta), and gains Var(A) / beta.
    A loss that is a mean over tokens pays A for each of them: an answer gets exp(A length / beta).
    """
    betas, lengths = view.measure("beta"), view.measure("length")
    beta = betas[0] if betas else charged_beta(view)
    if not view.facts.on_rewards or beta is None or beta <= 0 or not lengths:
        return None
    # advantages that are divided by their deviation have one of 1
    spread = max(1.0, statistics.median(view.measure("reward_spread") or [1.0]))
    bound = spread * statistics.median(lengths) / beta
    rewards = rewards_of(view)
    has_gained = rewards is not None and rewards.gain > limit("REF005", "gain")
    if bound >= limit("REF005", "gain") or has_gained:
        return None
    return suspect("REF005", beta=beta, bound=bound, step=0)


def small_steps(view: HistoryView) -> Candidate | None:
    """Rewards that stay, after steps that together have hardly moved the weights."""
    distance = view.distance
    if distance is None or not _is_still(view) or distance >= limit("OPT007", "still"):
        return None
    return suspect("OPT007/rewards", n=view.updates, distance=distance, rate=view.rate)


def frozen_policy(view: HistoryView) -> Candidate | None:
    """Rewards that stay, where no matrix of any block is trained."""
    rewards = rewards_of(view)
    if not view.facts.frozen_body or rewards is None:
        return None
    # what cannot learn needs less proof that it does not
    if not -limit("RLH012", "gain") < rewards.gain < limit("GRD003", "gain"):
        return None
    return suspect("GRD003/rewards", share=view.facts.frozen, step=0, severity="warn")


def odd_temperature(view: HistoryView) -> Candidate | None:
    """Answers drawn at a temperature at which a policy always writes the same, or writes by lot."""
    temperatures = view.measure("temperature")
    if not view.facts.on_rewards or not temperatures:
        return None
    temperature = temperatures[0]
    if 0 < temperature < limit("RLH007", "cold"):
        return suspect("RLH007/cold", temperature=temperature, step=0)
    if temperature <= limit("RLH007", "hot"):
        return None
    rewards = rewards_of(view)
    learns = rewards is not None and rewards.gain > limit("RLH012", "gain")
    return suspect(
        "RLH007/hot", temperature=temperature, step=0, severity="note" if learns else None
    )


def empty_answers(view: HistoryView) -> Candidate | None:
    """Answers that shrank to their end token while rewards, none of them above 0, rose."""
    lengths, rewards = (view.history.measures.get(kind, ()) for kind in ("length", "reward"))
    is_long = min(len(lengths), len(rewards)) >= limit("RLH014", "rows")
    if not view.facts.on_rewards or not is_long or max(value for _, value in rewards) > 0:
        return None
    sizes, least = [value for _, value in lengths], int(limit("RLH014", "rows")) // 2
    # a row is the mean of some updates, in which answers may have shrunk already
    long, (start, end) = max(sizes[: len(sizes) // 2]), ends(rewards, least=least)
    short = statistics.fmean(sizes[-least:])
    if short >= limit("RLH014", "length") or long < limit("RLH014", "times") * short:
        return None
    if end <= start or (view.late("cut_off") or 0.0) > limit("RLH014", "cut"):
        return None  # answers that are cut off are as long as they may be
    return suspect("RLH014", long=long, short=short, start=start, end=end)


def paid_length(view: HistoryView) -> Candidate | None:
    """Rewards that follow the length of answers and nothing else, and rise: longer is better."""
    share, rewards = follows_length(view), view.history.measures.get("reward", ())
    if not view.facts.on_rewards or share is None or len(rewards) < limit("RLH008", "rows"):
        return None
    start, end = ends(rewards)
    if share < limit("RLH008", "paid") or end <= start + noise(view.measure("reward")):
        return None
    # length may be what is wanted
    return suspect("RLH008/paid", share=share, start=start, end=end, severity="note")


def foreign_answers(view: HistoryView) -> Candidate | None:
    """Answers that the policy would not have drawn, in a loss that does not divide its logits."""
    surplus, temperature = view.first("answers.surplus"), view.first("logits.temperature")
    if surplus is None or temperature is None or not view.facts.on_rewards:
        return None
    if surplus > -limit("RLH009", "surplus") or abs(temperature - 1) > limit("RLH009", "divided"):
        return None
    return suspect("RLH009/drawn", surplus=surplus, gap=-surplus, step=0)


def charged_entropy(view: HistoryView) -> Candidate | None:
    """A first gradient that lowers the entropy of each place, by a price of its own."""
    price, lowered = view.first("answers.entropy_price"), view.first("answers.lowered")
    if price is None or not view.facts.on_rewards or price <= limit("RLH007", "price"):
        return None
    # where nearly all answers are raised, or lowered, a temperature looks like a price
    if lowered is None or min(lowered, 1 - lowered) < limit("RLH007", "sides"):
        return None
    return suspect("RLH007/charged", price=price, step=0)


def turned_advantages(view: HistoryView) -> Candidate | None:
    """A first update that makes the answers with the lower rewards likelier.

    The gradient says what descent does. An optimiser that climbs does the opposite.
    """
    agreement = view.first("answers.agreement")
    if agreement is None or not view.facts.on_rewards:
        return None
    climbs = bool(view.facts.maximizes) or view.often("uphill", limit("LOS009", "uphill"))
    share = agreement if climbs else 1 - agreement
    if share < 1 - limit("RLH003", "agreement"):
        return None
    if climbs:
        return suspect("LOS009/agreement", agreement=agreement, step=0)
    return suspect("RLH003/sign", share=share, agreement=agreement, step=0)


def unrelated_advantages(view: HistoryView) -> Candidate | None:
    """A first gradient that follows neither the rewards nor their opposite, and rewards that stay.

    By lot, the better of two answers is raised in half of the comparisons.
    """
    agreement, rewards = view.first("answers.agreement"), _stays(view)
    if agreement is None or rewards is None:
        return None
    if not limit("RLH003", "agreement") < agreement < limit("RLH013", "agreement"):
        return None
    return suspect("RLH013", agreement=agreement, gain=rewards.gain, step=0)


def climbing(view: HistoryView) -> Candidate | None:
    """Rewards that stay or fall, under an optimiser that climbs: a policy's loss is to fall."""
    rewards = _stays(view)
    if not view.facts.maximizes or rewards is None:
        return None
    return suspect("LOS009/climbing", maximizes=True, step=0, **rewards._asdict())


def stuck_answers(view: HistoryView) -> Candidate | None:
    """Answers that came to end in one token again and again, whatever a reward says of them."""
    readings = view.readings("batch.stuck")
    if not view.facts.on_rewards or len(readings) < _FEW_READINGS:
        return None
    first, last = readings[0].value, readings[-1].value
    if last < limit("RLH007", "stuck") or first >= limit("RLH007", "stuck"):
        return None
    return suspect("RLH007/stuck", start=first, end=last, step=readings[-1].step)


CAUSES: tuple[Cause, ...] = (
    stuck_answers,
    flat_reward,
    lost_spread,
    lost_old_log_ps,
    large_beta,
    small_steps,
    frozen_policy,
    odd_temperature,
    empty_answers,
    paid_length,
    foreign_answers,
    charged_entropy,
    turned_advantages,
    unrelated_advantages,
    climbing,
    Comparison("RLH009/tokens", "answers.ratio", (">", "tied"), n=1),
)
