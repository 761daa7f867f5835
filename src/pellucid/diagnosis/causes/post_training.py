"""Causes after pre-training: the reference, preferences, rewards."""

from __future__ import annotations

from pellucid.diagnosis.causes.candidate import Candidate, Cause, Comparison
from pellucid.diagnosis.causes.history_view import HistoryView, clue
from pellucid.diagnosis.finding import limit


def other_reference(view: HistoryView) -> Candidate | None:
    """A distance before the first update."""
    start = next((read.value for read in view.readings("reference.kl_start")), None)
    if start is None or start < limit("REF001", "start"):
        return None
    return Candidate(
        code="REF001",
        likely=0.9,
        what=f"Before the first update the model is {start:.3g} nats a token from its reference.",
        clues=clue("REF001", "reference.kl_start", start),
        where="reference",
        step=0,
        severity=None if start > 0.01 else "warn",
    )


def shared_reference(view: HistoryView) -> Candidate | None:
    """A distance of exactly 0 that stays."""
    late = view.readings("reference.kl", after=int(limit("REF002", "updates")))
    moves = view.usual("update.ratio") or view.usual("update.kl_forward")
    if len(late) < 2 or any(read.value != 0 for read in late) or not moves:
        return None
    return Candidate(
        code="REF002",
        likely=0.9,
        what=f"After {late[-1].step} updates the reference says exactly what the model says.",
        clues=clue("REF002", "reference.kl", 0.0),
        where="reference",
        step=late[0].step,
    )


def coin(view: HistoryView) -> Candidate | None:
    """A preference loss that stays that of a coin."""
    low, high = limit("PRF001", "low"), limit("PRF001", "high")
    end = view.end
    if view.facts.objective != "DPO" or end is None:
        return None
    if view.updates < limit("PRF001", "updates") or not low < end < high:
        return None
    return Candidate(
        code="PRF001",
        likely=0.8,
        what=f"After {view.updates} updates the loss is {end:.4g}; a coin has ln 2 = 0.6931.",
        clues=clue("PRF001", "loss", end),
        where="preferences",
        step=view.updates,
        rivals=("OPT007",),
    )


def unchanged_answers(view: HistoryView) -> Candidate | None:
    """A margin or a reward that rose, and greedy answers that stayed what they were."""
    samples, gains = view.history.samples, [value for _, value in view.history.gains]
    n = len(gains) // 4
    if len(samples) < 2 or len({text for _, text in samples}) > 1 or not n:
        return None
    risen = sum(gains[-n:]) / n - sum(gains[:n]) / n
    if risen < limit("PRF002", "risen"):
        return None
    gain_name = "margin" if view.facts.objective == "DPO" else "reward"
    return Candidate(
        code="PRF002",
        likely=0.6,
        what=f"The {gain_name} rose by {risen:.3g}, to {sum(gains[-n:]) / n:.3g}; of "
        f"{len(samples)} samples the greedy answer is the same as before the first update.",
        clues=clue("PRF002", f"{gain_name}, risen by", risen),
        where="greedy answers",
        step=samples[-1][0],
    )


def _reference_was_near(view: HistoryView) -> bool:
    """Whether the model began within a nat of its reference, as far as is known."""
    return next((read.value for read in view.readings("reference.kl_start")), 0.0) <= 1


def equal_rewards(view: HistoryView) -> Candidate | None:
    """Updates without a gradient, in learning from rewards."""
    norms = [value for _, value in view.history.grad_norms]
    if view.facts.objective != "PolicyGradient" or len(norms) < 10:
        return None
    share = sum(norm < 1e-8 for norm in norms) / len(norms)
    if share < limit("RLH001", "share"):
        return None
    return Candidate(
        code="RLH001",
        likely=0.85,
        what=f"{share:.0%} of the updates had no gradient: no answer was better than another.",
        clues=clue("RLH001", "share of updates without a gradient", share),
        where="rewards",
        step=view.history.grad_norms[0][0],
    )


CAUSES: tuple[Cause, ...] = (
    other_reference,
    shared_reference,
    Comparison(
        code="REF003",
        number="reference.kl",
        rule=(">=", "kl"),
        likely=0.7,
        what="The model is {value:.3g} nats a token from its reference.",
        look="last",
        condition=_reference_was_near,
        where="",
    ),
    coin,
    unchanged_answers,
    equal_rewards,
)
