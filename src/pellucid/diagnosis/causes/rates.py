"""Causes in a learning rate that is too high, and in its warm-up."""

from __future__ import annotations

import math
from typing import Any

from pellucid.diagnosis.causes.candidate import Candidate, suspect
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.long_steps import (
    effects_on_loss,
    has_adapters,
    usual_stride,
    was_trained,
)
from pellucid.diagnosis.causes.reference import has_teacher
from pellucid.diagnosis.causes.reward_gains import has_gained
from pellucid.diagnosis.finding import limit

#: So many values that run away are enough, also while the loss comes down.
_ENOUGH = 2
#: The first update that is measured is this one at the latest.
_EARLY = 5


def too_high(view: HistoryView) -> Candidate | None:
    """Updates that move weights by far too much, and the values that run away because of it."""
    runaways = find_runaways(view)
    is_hurt = has_diverged(view)
    large_update = view.lasting("update.ratio", lambda v: v > limit("OPT005", "update"))
    stride = usual_stride(view)
    # so long a way leaves nothing of a trained model, whatever a reward or a margin says
    update = view.highest("update.ratio")
    sudden = starts_hot(view)  # then a missing warm-up may be all
    is_torn = update is not None and update.value > limit("OPT005", "torn")
    is_bad = is_hurt or view.facts.pretrained or is_torn or was_trained(view)
    is_far = is_bad and not sudden and stride > limit("OPT005", "stride")
    is_far = is_far and not has_adapters(view)
    is_lost = is_torn and was_trained(view)  # nothing is left for a warm-up to save
    if is_far:
        effect = f"half of the updates seen moved the weights by {stride:.0%} of their size or more"
        runaways["stride"] = stride, effect
    full = _at_full_rate(view)
    # new weights may move by their own size; of trained ones, nothing is left then
    is_adam = view.facts.betas is not None  # then steps have the size of the rate
    tears_all = is_adam and was_trained(view)
    largest_step = limit("OPT005", "torn" if tears_all else "full")
    if len(runaways) < _ENOUGH and not sudden and full > largest_step:
        effect = f"an update at the full rate would move weights by {full:.1f} times their size"
        runaways["full"] = full, effect
        is_lost |= tears_all
    lost_ground = effects_on_loss(view)
    runaways |= lost_ground
    shows = bool(lost_ground) or _rises(view)
    if has_adapters(view) and not (shows or is_hurt):
        return None  # of a few new weights, the size of a step says little
    is_sure = is_far or is_lost or shows or large_update is not None
    if len(runaways) < (1 if is_sure else _ENOUGH):
        return None
    likely = 0.5 + 0.1 * len(runaways) + (0.15 if is_hurt else 0)
    likely += 0.25 if is_lost else -0.25 if sudden else 0
    values: dict[str, Any] = dict.fromkeys(
        ("update", "score", "size", "kl", "grown", "stride", "full", "above", "way")
    )
    values |= {name: value for name, (value, _) in runaways.items()}
    return suspect(
        "OPT005",
        min(0.95, likely),
        rate=view.rate or 0,
        effects="; ".join(effect for _, effect in runaways.values()),
        **values,
        step=None if update is None else update.step,
        severity="note" if has_gained(view) else None if is_hurt or len(runaways) > 2 else "warn",
        rivals=("OPT006",) if sudden and not is_lost else (),
    )


def _largest_stride(view: HistoryView) -> float:
    """The largest step, of the weights' size, as the ledger saw it; 0 if it saw none."""
    mark = view.history.marks.get("stride")
    return max(filter(math.isfinite, mark.values), default=0.0) if mark else 0.0


def tears(view: HistoryView) -> bool:
    """Whether an update moved new weights by half of their size or more: little of them is left."""
    update = view.highest("update.ratio")
    is_torn = update is not None and update.value > limit("OPT005", "torn")
    return is_torn and not _begins_small(view)


def _begins_small(view: HistoryView) -> bool:
    """Whether first weights are so small that any step is large."""
    return (view.first("norm.variance_over_eps") or 100) < limit("INI006", "variance")


def no_warm_up(view: HistoryView) -> Candidate | None:
    """A first update that damages the initial weights, at a rate that may suit later updates."""
    if not starts_hot(view):
        return None
    first = view.first("update.ratio") or 0
    usual = view.usual("update.ratio", after=view.updates // 2)
    is_calm = usual is not None and usual < limit("OPT005", "far")
    # Adagrad's rate is that of its first step, which is the largest by far; adapters begin near 0
    is_small = first < limit("OPT006", "harmful") or bool(view.facts.slows_down)
    is_small = is_small or has_adapters(view)
    # a plateau at the frequencies of tokens is a phase of sound trainings too, and classes may
    # be hard to learn
    is_flat = view.above_frequencies and (view.fall or 0.0) < limit("DAT009", "flat")
    is_torn = first > limit("OPT006", "plateau") and is_flat
    is_stuck = (_never_fell(view) or is_torn) and view.learns_tokens
    is_harmless = is_small and not (_rises(view) or is_stuck) and too_high(view) is None
    if is_harmless and view.goes_well and first < limit("OPT006", "note"):
        return None
    highest, rates = view.rate or 0.0, view.history.rates
    share = rates[0][1] / highest if rates and highest else None
    return suspect(
        "OPT006",
        0.8 if is_calm else 0.6,
        at="" if share is None else f", at {share:.0%} of the highest rate,",
        first=first,
        warm_up=view.facts.warmup_steps,
        step=1,
        severity="note" if is_harmless or has_gained(view) else None,
        rivals=() if is_calm else ("OPT005",),
    )


def sudden_rise(view: HistoryView) -> Candidate | None:
    """A rate that jumps far above all before it, and a loss that is higher after it.

    Restarts and cycles come back to a rate that was there, and a warm-up does not raise the loss.
    """
    rates, losses = view.history.rates, dict(view.history.losses)
    highest, span = 0.0, int(limit("OPT005", "span"))
    for i, (step, rate) in enumerate(rates):
        factor = rate / highest if highest else 0.0
        highest = max(highest, rate)
        if i < span or factor < limit("OPT005", "jump"):
            continue
        before = [losses[s] for s in range(step - span, step) if s in losses]
        # the loss of this update is from before its step
        after = [losses[s] for s in range(step + 1, step + span + 1) if s in losses]
        if len(before) < span / 2 or len(after) < span / 2:
            continue
        rise = sum(after) / len(after) - sum(before) / len(before)  # losses may be infinite
        if not rise <= limit("OPT005", "rise"):
            return suspect("OPT005/jump", factor=factor, rate=rate, rise=rise, step=step)
    return None


def starts_hot(view: HistoryView) -> bool:
    """Whether the first update moved the weights by much, at the full rate."""
    first, warm_up = view.first("update.ratio"), view.facts.warmup_steps
    rates = view.history.rates
    is_full = warm_up is not None and warm_up <= 3
    is_full = is_full or (
        len(rates) > 1 and rates[0][0] <= 2 and rates[0][1] >= 0.5 * (view.rate or 0)
    )
    is_hot = first is not None and first > limit("OPT006", "first")
    return is_full and is_hot and not _begins_small(view)


def find_runaways(view: HistoryView) -> dict[str, tuple[float, str]]:
    """The values that run away, each with a sentence, by their names in `findings.toml`."""
    runaways: dict[str, tuple[float, str]] = {}
    update = view.highest("update.ratio")
    if update is not None and update.value > limit("OPT005", "first"):
        effect = f"one update moved weights by {update.value:.0%} of their size"
        runaways["update"] = update.value, effect
    step = _largest_stride(view)
    if step > limit("OPT005", "torn") and not runaways and not _begins_small(view):
        runaways["update"] = step, f"one step moved all weights by {step:.0%} of their size"
    score, first = view.highest("attention.max_logit"), view.first("attention.max_logit")
    if score and first is not None and score.value > max(limit("OPT005", "score"), 10 * first):
        runaways["score"] = score.value, f"scores rose from {first:.2g} to {score.value:.3g}"
    growth, size = view.growth("stream.size"), view.highest("stream.size")
    if growth and size and growth > limit("OPT005", "stream") and size.value > 5:
        runaways["size"] = growth, f"the stream grew {growth:.0f} times as large"
    kl = view.highest("update.kl_forward")
    if kl is not None and kl.value > limit("OPT005", "kl"):
        effect = f"one update moved the predictions by {kl.value:.2g} nats a token"
        runaways["kl"] = kl.value, effect
    grown = view.growth("weights.size")
    if view.facts.pretrained and grown is not None and grown > limit("OPT005", "grown"):
        # from new weights this is usual; a model that was trained has lost what it knew
        runaways["grown"] = grown, f"the weights grew to {grown:.1f} times their size"
    return runaways


def _at_full_rate(view: HistoryView) -> float:
    """The first update, of the weights' size, as it would be at the highest rate; 0 if unknown."""
    first = next(iter(view.readings("update.ratio", last_step=_EARLY)), None)
    if first is None or _begins_small(view) or (view.facts.pretrained and not was_trained(view)):
        return 0.0
    # many trainers begin a warm-up at a rate of 0, and take the first reading an update later
    rate = dict(view.history.rates).get(first.step, 0.0)
    return first.value * (view.rate or 0.0) / rate if rate > 0 else 0.0


def has_diverged(view: HistoryView) -> bool:
    """Whether the loss diverged, rose again, or never came down.

    The loss of a policy stays near 0 whether it learns or not: only its end says something.
    """
    if view.facts.on_rewards:
        return view.history.stopped is not None
    return _rises(view) or _never_fell(view) or view.at_frequencies


def _never_fell(view: HistoryView) -> bool:
    """Whether 50 updates taught nothing; a loss that begins lower than that cannot fall by it.

    Of one that began below 1 nat, the same part of it counts.
    """
    start, best, fall = view.start, view.best, limit("OPT006", "fall")
    if view.facts.on_rewards or best is None or view.updates < 50:
        return False  # the loss of a policy stays near 0 whether it learns or not
    # a distance from a teacher is often multiplied, and has no loss of guessing
    guessing = None if has_teacher(view) else view.guessing
    starts = [value for value in (guessing, start) if value is not None]
    has_room = bool(starts) and (start is None or start > fall)
    return has_room and min(starts) - best < fall * min(1.0, start or 1.0)


def _rises(view: HistoryView) -> bool:
    """Whether the loss ended, rose again, or is above that of guessing between two answers."""
    if view.history.stopped is not None or (view.rose or 0.0) > limit("OPT005", "rise"):
        return True
    coin = view.coin
    return coin is not None and (view.end or 0.0) > coin + limit("OPT005", "rise")


CAUSES = (
    too_high,
    sudden_rise,
    no_warm_up,
)
