"""Causes in the schedule of the learning rate: next to nothing, exactly 0, below 0."""

from __future__ import annotations

import math
from itertools import pairwise

from pellucid.diagnosis.causes.candidate import (
    Candidate,
    Cause,
    likelihood,
    suspect,
    suspect_mark,
)
from pellucid.diagnosis.causes.history_view import HistoryView
from pellucid.diagnosis.causes.reward_gains import has_gained
from pellucid.diagnosis.finding import limit

#: Decimals of numbers in logs for people, and how few steps of the last one a rate then has.
_DECIMALS, _FEW_STEPS = (3, 4, 5, 6), 10


def faint_rate(view: HistoryView) -> Candidate | None:
    """A rate of next to nothing over the last fifth of the records, or more."""
    rates, highest = view.history.rates, view.rate or 0.0
    low = limit("OPT013", "faint") * highest
    if len(rates) < 2 or not 0 < rates[-1][1] < low:
        return None
    start = max((step for step, rate in rates if rate >= low), default=0) + 1
    if view.updates - start < max(10, round(limit("OPT013", "share") * view.updates)):
        return None
    severity = "note" if view.facts.pretrained else "warn"
    return suspect(
        "OPT013/faint", last_step=view.updates, rate=rates[-1][1], step=start, severity=severity
    )


def _is_rounded(view: HistoryView) -> bool:
    """Whether a log prints so few decimals, of losses too, that a small rate looks like 0."""
    rates = {rate for _, rate in view.history.rates if rate > 0}
    if not rates:
        return False
    numbers = [*rates, *(loss for loss in view.losses if math.isfinite(loss))]
    return any(
        max(rates) * 10**decimals < _FEW_STEPS
        and all(math.isclose(x * 10**decimals, round(x * 10**decimals)) for x in numbers)
        for decimals in _DECIMALS
    )


def stands_at_zero(view: HistoryView) -> bool:
    """Whether all rates are 0, and a schedule keeps the optimiser's own rate.

    One that has stepped too often has passed through other rates before.
    """
    rates, initial = view.history.rates, view.facts.initial_rate or 0.0
    is_long = len(rates) >= limit("UPD005", "zeros")
    return initial > 0 and is_long and not any(rate for _, rate in rates)


def zero_rate(view: HistoryView) -> Candidate | None:
    """A rate of exactly 0 over the last fifth of the records, or more."""
    rates = view.history.rates
    if len(rates) < 2 or rates[-1][1] != 0 or _is_rounded(view):
        return None
    start = next(step for step, _ in rates if all(v == 0 for s, v in rates if s >= step))
    if stands_at_zero(view):
        return suspect(
            "UPD005/zero", n=view.updates, rate=0.0, initial=view.facts.initial_rate, step=start
        )
    if view.updates - start < max(10, round(limit("OPT013", "share") * view.updates)):
        return None
    return suspect("OPT013", last_step=view.updates, rate=0.0, step=start)


def zero_start(view: HistoryView) -> Candidate | None:
    """A rate of exactly 0 over the first fifth of the records, or more."""
    rates = view.history.rates
    n = next((i for i, (_, rate) in enumerate(rates) if rate != 0), 0)
    if n < max(10, round(limit("OPT013", "share") * len(rates))) or _is_rounded(view):
        return None
    last = rates[n - 1][0]
    return suspect("OPT004/history", n=last, of=view.updates, rate=0.0, step=rates[0][0])


def low_foot(view: HistoryView) -> Candidate | None:
    """A schedule whose highest rate is next to nothing of the optimiser's own.

    A training that is over needs fewer updates: its warm-up ends after it. One that rises at most
    updates does step, and is too slow.
    """
    initial, highest, total = view.facts.initial_rate, view.rate, view.facts.total_steps
    is_over = total is not None and view.updates >= total
    values = [rate for _, rate in view.history.rates]
    least = limit("UPD005", "whole" if is_over else "updates")
    if not initial or not highest or len(values) < least:
        return None
    is_slow = sum(b > a for a, b in pairwise(values)) > len(values) / 2 and values[-1] == highest
    foot = limit("OPT007", "warm_up") if is_over and is_slow else limit("UPD005", "foot")
    # the loss of a policy stays near 0, whatever becomes of it: its rewards tell
    is_well = has_gained(view) if view.facts.on_rewards else view.goes_well
    if highest > foot * initial or is_well:
        return None
    n, key = view.updates, "OPT007/warm-up" if is_slow else "UPD005/foot"
    return suspect(key, rate=highest, initial=initial, n=n, step=n)


def idle_schedule(view: HistoryView) -> Candidate | None:
    """A schedule that is still at the foot of its warm-up after many updates."""
    initial, rates = view.facts.initial_rate, view.history.rates
    if initial is None or len(rates) < limit("UPD005", "updates"):
        return None
    values = {rate for _, rate in rates}
    rate = values.pop()
    if values or rate == 0 or rate >= initial:
        return None
    severity = "note" if view.goes_well else None
    return suspect("UPD005", rate=rate, initial=initial, n=view.updates, step=0, severity=severity)


def below_zero(view: HistoryView) -> Candidate | None:
    """A learning rate below 0: steps go up the loss."""
    first = next(((step, rate) for step, rate in view.history.rates if rate < 0), None)
    return None if first is None else suspect("LOS009/rate", rate=first[1], step=first[0])


def stepped_within(view: HistoryView) -> Candidate | None:
    """A schedule that steps within updates, as long as the rate still changes.

    It comes to its end early, and from then on its steps change nothing.
    """
    mark, rates = view.history.marks.get("rates"), view.history.rates
    if mark is None or mark.n_seen < limit("UPD003", "times"):
        return None
    last = max((step for step, rate in rates if rate != rates[-1][1]), default=mark.n_seeable)
    if mark.n_seen < limit("UPD004", "share") * min(mark.n_seeable, last + 1):
        return None
    return suspect_mark("UPD004", mark, likelihood(mark))


CAUSES: tuple[Cause, ...] = (
    stepped_within,
    zero_rate,
    zero_start,
    faint_rate,
    low_foot,
    idle_schedule,
    below_zero,
)
