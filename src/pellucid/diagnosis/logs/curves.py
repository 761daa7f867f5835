"""The findings in the curves of a log: the course of the loss, and its start."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import replace

from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.logs.gradients import of_gradients
from pellucid.diagnosis.logs.jumps import of_jumps
from pellucid.diagnosis.logs.statistics import Log, ends, noise, smoothed, values

#: Above ln V of any vocabulary in use: ln V of 262,144 tokens is 12.5 nats.
_ABOVE_ANY_GUESS = 13.0


def of_curves(log: Log) -> list[Finding]:
    """All findings in the curves, in no order; one about a whole curve has no step."""
    checks = (_course, _start, _units)
    findings = (
        of_gradients(log) + of_jumps(log) + [finding for check in checks for finding in check(log)]
    )
    first = {finding.code: finding for finding in reversed(findings)}
    return [finding if finding.step else replace(finding, step=None) for finding in first.values()]


# ---- the course of the loss


def _course(log: Log) -> Iterable[Finding]:
    """Whether the loss came down, came back up, did not move, or stayed at guessing."""
    losses = log.losses
    if len(losses) < limit("LOG002", "points"):
        return
    width = max(3, min(25, len(losses) // 10))
    curve = [losses[0], *smoothed(losses, width)]  # some trainings diverge at the second update
    start, end = curve[0][1], curve[-1][1]
    step, lowest = min(curve, key=lambda point: point[1])
    rise = end - lowest
    least = max(limit("LOG002", "nats"), limit("LOG002", "share") * (start - lowest))
    is_significant = rise > 4 * noise(values(losses)) or (rise > 5 and end > 3 * lowest)
    if rise > least and is_significant:
        yield _diverged(log, start, step, lowest, end)
        return
    vocab = log.facts.vocab_size
    span = losses[-1][0] - losses[0][0]
    guessing = math.log(vocab) if vocab and log.in_tokens else None
    if guessing is not None and span >= limit("LOG004", "updates") and start > guessing - 1:
        if abs(end - guessing) <= limit("LOG004", "nats"):
            gain, last_step = guessing - end, losses[-1][0]
            yield describe(
                "LOG004", end=end, updates=last_step, vocab=vocab, guessing=guessing, gain=gain
            )
        return
    yield from _unmoved(log, start)


def _unmoved(log: Log, start: float) -> Iterable[Finding]:
    numbers, rates = values(log.losses), values(log.rate)
    if len(numbers) < limit("LOG005", "points") or start <= 0:
        return
    first, last = ends(log.losses)
    uncertainty = noise(numbers) / math.sqrt(len(numbers) / 5)
    change = abs(first - last)
    if change > limit("LOG005", "share") * abs(first) or change > 2 * uncertainty:
        return
    cause = "zero rate" if rates and max(rates) == 0 else "unknown"
    yield describe("LOG005", first=first, last=last, share=change / abs(first), cause=cause)


def _diverged(log: Log, start: float, step: int, lowest: float, end: float) -> Finding:
    rates = [(s, rate) for s, rate in log.rate if math.isfinite(rate)]
    rate = max((rate for s, rate in rates if s <= step), default=0.0)
    cause = "steps"
    if rates:
        cause = "rising rate" if rate < 0.98 * max(rate for _, rate in rates) else "rate"
    return describe(
        "LOG002",
        start=start,
        lowest=lowest,
        end=end,
        rise=end - lowest,
        rate=rate,
        cause=cause,
        step=step,
    )


# ---- the start of the loss, and its unit


def _start(log: Log) -> Iterable[Finding]:
    """A loss that is negative, starts above guessing, or is lower than a text allows."""
    numbers = values(log.losses)
    if len(numbers) < 3 or not log.in_tokens:
        return
    first, median = numbers[0], statistics.median(numbers)
    if median < 0:
        yield describe("LOS009/log", median=median)
        return
    vocab = log.facts.vocab_size
    guessing = math.log(vocab) if vocab and vocab > 1 else None
    if first > (_ABOVE_ANY_GUESS if guessing is None else guessing + limit("INI001", "nats")):
        yield _too_high(first, guessing, vocab)
    yield from _too_low(log, first)


def _too_high(first: float, guessing: float | None, vocab: int | None) -> Finding:
    if guessing is None or vocab is None:
        return describe("INI001/log", first=first, chance="at most 12.5 nats", above=first - 12.5)
    ratio = first / guessing
    parts = round(ratio)
    if ratio > 1.9 and abs(ratio / parts - 1) <= limit("LOS007", "share_of_a_log"):
        return describe(
            "LOS007/start", first=first, parts=parts, vocab=vocab, guessing=guessing, ratio=ratio
        )
    chance = f"ln {vocab} = {guessing:.3f}"
    return describe("INI001/log", first=first, chance=chance, above=first - guessing)


def _too_low(log: Log, first: float) -> Iterable[Finding]:
    """A loss of nearly zero within one pass over the data."""
    if not log.epochs or log.epochs[-1][1] > 1.01 or first < limit("LOG012", "first"):
        return
    _, last = ends(log.losses, 0.1)
    if last < limit("LOG012", "nats"):
        yield describe("LOG012", first=first, last=last)


def _units(log: Log) -> Iterable[Finding]:
    """Training losses that are always the same multiple of the held-out loss."""
    ratios: list[float] = []
    for step, value in log.held_out:
        recent = [v for s, v in log.losses if s <= step][-5:]
        if recent and math.isfinite(value) and value > 0:
            ratios.append(statistics.median(recent) / value)
    if len(ratios) < 3:
        return
    ratio = statistics.median(ratios)
    parts, tolerance = round(ratio), limit("LOS007", "share_of_a_log")
    if parts < 2 or any(abs(quotient / parts - 1) > 2 * tolerance for quotient in ratios):
        return
    if abs(ratio / parts - 1) <= tolerance:
        yield describe("LOS007/held-out", parts=parts, ratio=ratio)
