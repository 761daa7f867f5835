"""The findings in the curves of a log: the course of the loss, and its start."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations, pairwise

from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.logs.gradients import of_gradients, of_updates
from pellucid.diagnosis.logs.jumps import of_jumps, of_overfitting
from pellucid.diagnosis.logs.statistics import Log, ends, noise, smoothed, values

#: Above ln V of any vocabulary in use: ln V of 262,144 tokens is 12.5 nats.
_ABOVE_ANY_GUESS = 13.0


def of_curves(log: Log) -> list[Finding]:
    """All findings in the curves, in no order; one about a whole curve has no step.

    A loss of preferences has no targets, and one of rewards is no measure of success: it is near 0
    when the model learns and when it does not. `causes` reads their other columns.
    """
    checks = (_zero, _course, _repeated, _at_chance, _start, _units)
    findings = of_updates(log)
    if log.facts.on_preferences:
        findings += [*_course(log), *of_overfitting(log)]
    elif not log.facts.on_rewards:
        findings += [*of_gradients(log), *of_jumps(log), *of_overfitting(log)]
        findings += [finding for check in checks for finding in check(log)]
    first = {finding.code: finding for finding in reversed(findings)}
    return [finding if finding.step else replace(finding, step=None) for finding in first.values()]


# ---- the course of the loss


def _course(log: Log) -> Iterable[Finding]:
    """Whether the loss came down, came back up, did not move, or stayed at guessing."""
    losses = log.losses
    if len(losses) < limit("LOG002", "points"):
        yield from _exploded(log) or _climbed(log)
        return
    width = max(3, min(25, len(losses) // 10))
    curve = [losses[0], *smoothed(losses, width)]  # some trainings diverge at the second update
    start, end = curve[0][1], curve[-1][1]
    step, lowest = min(curve, key=lambda point: point[1])
    rise = end - lowest
    least = max(limit("LOG002", "nats"), limit("LOG002", "share") * (start - lowest))
    is_significant = rise > 4 * noise(values(losses)) or (rise > 5 and end > 3 * lowest)
    is_worse = not log.facts.on_preferences or end > math.log(2) + limit("LOG002", "nats")
    if rise > least and is_significant and is_worse:
        yield _diverged(log, start, step, lowest, end)
        return
    if log.facts.on_preferences:
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


def _exploded(log: Log) -> list[Finding]:
    """A short log whose last rows are all far above its lowest."""
    losses, rows = log.losses, round(limit("LOG002", "rows"))
    if len(losses) < 2 * rows:
        return []
    step, lowest = min(losses[:-rows], key=lambda point: point[1])
    least = max(limit("LOG002", "times") * lowest, lowest + 2 * limit("LOG002", "nats"))
    is_above = min(value for _, value in losses[-rows:]) > least > 0
    return [_diverged(log, losses[0][1], step, lowest, losses[-1][1])] if is_above else []


def _climbed(log: Log) -> list[Finding]:
    """A short log that rises from its lowest row to its end, almost row by row.

    Of `rising` rows none is out of order, and one more pair may be for each further row: noise
    without a trend does that in less than 1 % of logs.
    """
    losses, rising = log.losses, round(limit("LOG002", "rising"))
    if log.facts.on_preferences or len(losses) <= rising:
        return []
    i = min(range(len(losses)), key=lambda at: losses[at][1])
    (step, lowest), start, end = losses[i], losses[0][1], losses[-1][1]
    numbers = values(losses[i + 1 :])
    out_of_order = sum(later < earlier for earlier, later in combinations(numbers, 2))
    least = max(limit("LOG002", "grown") * lowest, limit("LOG002", "share") * (start - lowest))
    is_rise = len(numbers) >= rising and out_of_order <= len(numbers) - rising
    return (
        [_diverged(log, start, step, lowest, end)] if is_rise and end - lowest > least > 0 else []
    )


def _zero(log: Log) -> Iterable[Finding]:
    """A loss of exactly 0 to the end, which no loss of tokens is.

    A row says 0 for less than a digit, too; not with a gradient of exactly 0.
    """
    numbers = [value for _, value in log.loss]
    n = next((i for i, value in enumerate(reversed(numbers)) if value != 0), len(numbers))
    norms = values(log.grad_norm)[-n:] if n else []
    least = 1 if norms and not any(norms) else limit("LOG015", "rows")
    if n < least or log.stopped is not None:
        return
    if n < limit("LOG015", "rows") and 0 in numbers[: len(numbers) - n]:
        return  # it came back before: a hinge is 0 where all pairs of a batch are apart
    cause = "labels" if norms and not any(norms) else "unknown"
    if any(math.isnan(value) for _, value in log.held_out):
        cause = "hidden"
    yield describe("LOG015", n=n, loss=0.0, cause=cause)


def _unmoved(log: Log, start: float) -> Iterable[Finding]:
    numbers, rates = values(log.losses), values(log.rate)
    last_rows = numbers[-round(limit("LOG005", "rows")) :]
    if len(last_rows) == limit("LOG005", "rows") and len(set(last_rows)) == 1 and start > 0:
        yield describe("LOG005/exact", n=len(last_rows), last=last_rows[0])
        return
    if len(numbers) < limit("LOG005", "points") or start <= 0:
        return
    first, last = ends(log.losses)
    uncertainty = noise(numbers) / math.sqrt(len(numbers) / 5)
    change = abs(first - last)
    if change > limit("LOG005", "share") * abs(first) or change > 2 * uncertainty:
        return
    cause = "zero rate" if rates and max(rates) == 0 else "unknown"
    yield describe("LOG005", first=first, last=last, share=change / abs(first), cause=cause)


def _repeated(log: Log) -> Iterable[Finding]:
    """Losses that come back digit by digit, one pass over the data later."""
    numbers = values(log.losses)
    least, distinct = round(limit("LOG005", "again")), round(limit("LOG005", "distinct"))
    for period in range(distinct, len(numbers) - least + 1):
        if numbers[period:] == numbers[:-period] and len(set(numbers[:period])) >= distinct:
            n = len(numbers) - period
            yield describe("LOG005/repeats", n=n, period=period)
            return


def _at_chance(log: Log) -> Iterable[Finding]:
    """A loss that stays at ln k, which guessing among k classes costs."""
    numbers = values(log.losses)
    if len(numbers) < limit("LOG005", "chance_rows") or log.facts.vocab_size:
        return
    max_classes = limit("LOG005", "classes")
    classes = max(2, round(math.exp(min(statistics.median(numbers), math.log(2 * max_classes)))))
    guessing = math.log(classes)
    furthest = max(abs(number / guessing - 1) for number in numbers)
    if classes <= max_classes and furthest <= limit("LOG005", "chance"):
        yield describe(
            "LOG005/chance", n=len(numbers), classes=classes, guessing=guessing, share=furthest
        )


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
        # a policy's loss is near 0, and a rank without the loss prints one number for it
        if median < -limit("LOS009", "nats") and len(set(numbers)) > 1:
            yield describe("LOS009/log", median=median)
        return
    vocab = log.facts.vocab_size
    guessing = math.log(vocab) if vocab and vocab > 1 else None
    highest = _ABOVE_ANY_GUESS if guessing is None else guessing + limit("INI001", "nats")
    if first > highest and _has_first_updates(log):
        yield _too_high(first, guessing, vocab)
    yield from _too_low(log, first)
    least = round(limit("LOG016", "rows"))
    level = statistics.median(numbers[:least])
    is_start = bool(log.epochs) and log.epochs[0][1] <= limit("LOG016", "epoch")
    if is_start and len(numbers) >= least and 0 < level < limit("LOG016", "nats"):
        yield describe("LOG016", first=level)


def _has_first_updates(log: Log) -> bool:
    """Whether its first row is of the first updates, as far as the updates of its rows say."""
    steps = [step for step, _ in log.losses]
    gap = statistics.median(later - earlier for earlier, later in pairwise(steps))
    return steps[0] <= max(limit("INI001", "updates"), 2 * gap)


def _too_high(first: float, guessing: float | None, vocab: int | None) -> Finding:
    if guessing is None or vocab is None:
        chance = "at most 12.5 nats"
        return describe(
            "INI001/log", first=first, chance=chance, above=first - 12.5, severity="note"
        )
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
