"""Causes in the learning rate and its warm-up: too high, too sudden, too low, zero."""

from __future__ import annotations

from typing import Any

from pellucid.diagnosis.causes.candidate import Candidate, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.finding import limit


def too_high(view: HistoryView) -> Candidate | None:
    """Updates that move weights by far too much, and the values that run away because of it."""
    runaways = find_runaways(view)
    is_hurt = has_diverged(view)
    large_update = view.lasting("update.ratio", lambda v: v > limit("OPT005", "update"))
    diverged = view.history.stopped is not None or (view.rose or 0) > limit("OPT005", "rise")
    if len(runaways) < (1 if diverged or large_update is not None else 2):
        return None
    sudden = starts_hot(view)
    likely = 0.5 + 0.1 * len(runaways) + (0.15 if is_hurt else 0) - (0.25 if sudden else 0)
    largest_update = view.highest("update.ratio")
    values: dict[str, Any] = dict.fromkeys(("update", "score", "size", "kl"))
    values |= {name: value for name, (value, _) in runaways.items()}
    return suspect(
        "OPT005",
        min(0.95, likely),
        rate=view.rate or 0,
        effects="; ".join(effect for _, effect in runaways.values()),
        **values,
        step=None if largest_update is None else largest_update.step,
        severity=None if is_hurt or len(runaways) > 2 else "warn",
        rivals=("OPT006",) if sudden else (),
    )


def no_warm_up(view: HistoryView) -> Candidate | None:
    """A first update that damages the initial weights, at a rate that may suit later updates."""
    if not starts_hot(view):
        return None
    first = view.first("update.ratio") or 0
    usual = view.usual("update.ratio", after=view.updates // 2)
    is_calm = usual is not None and usual < limit("OPT005", "far")
    return suspect(
        "OPT006",
        0.8 if is_calm else 0.6,
        first=first,
        warm_up=view.facts.warmup_steps,
        step=1,
        rivals=() if is_calm else ("OPT005",),
    )


def too_low(view: HistoryView) -> Candidate | None:
    """Full-size steps that hardly move the weights, and little learnt."""
    start = view.warm_up_end
    update = view.usual("update.ratio", after=start)
    effective = view.usual("update.effective_step", after=start)
    least = limit("OPT007", "update")
    learns_little = view.learnt is not None and view.learnt < limit("OPT007", "learnt")
    learns_little = learns_little or view.above_frequencies
    if update is None or update > least or not learns_little or view.updates < start + 20:
        return None
    if not view.fresh or (view.rose or 0) > limit("OPT005", "rise"):
        return None
    if effective is not None and effective < limit("OPT007", "step"):
        return None
    likely = 0.9 if update < least / 2 else 0.7
    return suspect("OPT007", likely, update=update, effective=effective, rate=view.rate, step=start)


def zero_rate(view: HistoryView) -> Candidate | None:
    """A rate of exactly 0 over the last fifth of the records, or more."""
    rates = view.history.rates
    if len(rates) < 2 or rates[-1][1] != 0:
        return None
    start = next(step for step, _ in rates if all(v == 0 for s, v in rates if s >= step))
    if view.updates - start < max(10, round(limit("OPT013", "share") * view.updates)):
        return None
    return suspect("OPT013", last_step=view.updates, rate=0.0, step=start)


def starts_hot(view: HistoryView) -> bool:
    """Whether the first update moved the weights by much, at the full rate."""
    first, warm_up = view.first("update.ratio"), view.facts.warmup_steps
    rates = view.history.rates
    is_full = warm_up is not None and warm_up <= 3
    is_full = is_full or (
        len(rates) > 1 and rates[0][0] <= 2 and rates[0][1] >= 0.5 * (view.rate or 0)
    )
    is_small = (view.first("norm.variance_over_eps") or 100) < limit("INI006", "variance")
    return is_full and first is not None and first > limit("OPT006", "first") and not is_small


def find_runaways(view: HistoryView) -> dict[str, tuple[float, str]]:
    """The values that run away, each with a sentence, by their names in `findings.toml`."""
    runaways: dict[str, tuple[float, str]] = {}
    update = view.highest("update.ratio")
    if update is not None and update.value > limit("OPT005", "first"):
        effect = f"one update moved weights by {update.value:.0%} of their size"
        runaways["update"] = update.value, effect
    score, first = view.highest("attention.max_logit"), view.first("attention.max_logit")
    if score and first is not None and score.value > max(limit("OPT005", "score"), 10 * first):
        runaways["score"] = score.value, f"scores rose from {first:.2g} to {score.value:.3g}"
    growth, size = view.growth("stream.size"), view.highest("stream.size")
    if growth and size and growth > limit("OPT005", "stream") and size.value > 5:
        runaways["size"] = growth, f"the stream grew {growth:.0f} times as large"
    kl = view.highest("update.kl_forward")
    if kl is not None and kl.value > limit("OPT005", "kl"):
        runaways["kl"] = kl.value, "one update changed the predictions altogether"
    return runaways


def has_diverged(view: HistoryView) -> bool:
    """Whether the loss diverged, rose again, or never came down."""
    if view.history.stopped is not None:
        return True
    rose = view.rose is not None and view.rose > limit("OPT005", "rise")
    never_fell = view.learnt is not None and view.learnt < 0.1 and view.updates >= 50
    return rose or never_fell or view.at_frequencies


CAUSES = (too_high, no_warm_up, too_low, zero_rate)
