"""What the curves of a log show by themselves: where the loss went, and how it began."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import replace

from pellucid.diagnosis.finding import Finding, build_finding, evidence, limit
from pellucid.diagnosis.logs.gradients import of_gradients
from pellucid.diagnosis.logs.jumps import of_jumps
from pellucid.diagnosis.logs.statistics import Log, ends, noise, smoothed, values

#: Larger than ln V of any vocabulary in use: 262,144 tokens cost 12.5 nats to guess.
_ABOVE_ANY_GUESS = 13.0


def of_curves(log: Log) -> list[Finding]:
    """Everything that the curves show, in no order; what concerns a whole curve has no step."""
    checks = (_level, _start, _units)
    findings = (
        of_gradients(log) + of_jumps(log) + [finding for ask in checks for finding in ask(log)]
    )
    once = {finding.code: finding for finding in reversed(findings)}
    return [finding if finding.step else replace(finding, step=None) for finding in once.values()]


# ---- where the loss went


def _level(log: Log) -> Iterable[Finding]:
    """Whether the loss came down, came back up, stood still, or stood at guessing."""
    losses = log.losses
    if len(losses) < limit("LOG002", "points"):
        return
    width = max(3, min(25, len(losses) // 10))
    curve = [losses[0], *smoothed(losses, width)]  # some are lost with the second update
    start, end = curve[0][1], curve[-1][1]
    at, lowest = min(curve, key=lambda point: point[1])
    lost = end - lowest
    least = max(limit("LOG002", "nats"), limit("LOG002", "share") * (start - lowest))
    beyond_noise = lost > 4 * noise(values(losses)) or (lost > 5 and end > 3 * lowest)
    if lost > least and beyond_noise:
        yield _diverged(log, start, at, lowest, end)
        return
    vocab = log.facts.vocab_size
    span = losses[-1][0] - losses[0][0]
    guessing = math.log(vocab) if vocab and log.in_tokens else None
    if guessing is not None and span >= limit("LOG004", "updates") and start > guessing - 1:
        if abs(end - guessing) > limit("LOG004", "nats"):
            return
        yield build_finding(
            "LOG004",
            f"The loss is {end:.3f} after {losses[-1][0]} updates; guessing among {vocab} "
            f"tokens costs ln {vocab} = {guessing:.3f}.",
            evidence("LOG004", "ln V - loss", guessing - end),
            where="loss",
            confidence=0.9,
        )
        return
    yield from _still(log, start, end)


def _still(log: Log, start: float, end: float) -> Iterable[Finding]:
    numbers = values(log.losses)
    if len(numbers) < limit("LOG005", "points") or start <= 0:
        return
    first, last = ends(log.losses)
    unsure = noise(numbers) / math.sqrt(len(numbers) / 5)
    moved = abs(first - last)
    if moved > limit("LOG005", "share") * abs(first) or moved > 2 * unsure:
        return
    yield build_finding(
        "LOG005",
        f"The loss was {first:.4g} and is {last:.4g}: no more than its noise.",
        evidence("LOG005", "change / loss", moved / abs(first)),
        where="loss",
        cause=_why_still(log),
        confidence=0.6,
    )


def _why_still(log: Log) -> str:
    rates = values(log.rate)
    if rates and max(rates) == 0:
        return "the learning rate is 0"
    return (
        "not decidable from the curve alone: a model that has learnt what there is, a learning "
        "rate that is too small, weights that no update reaches, or labels that have nothing to "
        "do with the inputs"
    )


def _diverged(log: Log, start: float, at: int, lowest: float, end: float) -> Finding:
    rates = [(step, rate) for step, rate in log.rate if math.isfinite(rate)]
    peak = max(rates, key=lambda point: point[1], default=None)
    cause = "steps that are too large: the usual cause is the learning rate"
    if peak is not None:
        when = max((rate for step, rate in rates if step <= at), default=0.0)
        climbing = when < 0.98 * peak[1]
        cause = (
            "the learning rate was still rising when the loss turned: its peak is too high"
            if climbing
            else f"{cause}, which was {when:.3g} when the loss turned"
        )
    cause += "; a change of the data at that update would look the same"
    return build_finding(
        "LOG002",
        f"The loss fell to {lowest:.3f} until update {at} and stands at {end:.3f}; it began at "
        f"{start:.3f}.",
        evidence("LOG002", "loss now - lowest loss", end - lowest),
        where=f"update {at}",
        step=at,
        cause=cause,
        confidence=0.8,
    )


# ---- how it began, and in what unit


def _start(log: Log) -> Iterable[Finding]:
    """The first loss against guessing; what is negative; what is lower than a text allows."""
    numbers = values(log.losses)
    if len(numbers) < 3 or not log.in_tokens:
        return
    first = numbers[0]
    if statistics.median(numbers) < 0:
        yield build_finding(
            "LOS009",
            f"The loss is below 0: its median is {statistics.median(numbers):.3g}.",
            evidence("LOS009", "loss", statistics.median(numbers)),
            where="loss",
            cause="the sign is turned; or this is a loss of another kind (rewards, densities)",
            confidence=0.6,
        )
        return
    vocab = log.facts.vocab_size
    guessing = math.log(vocab) if vocab else None
    if first > (_ABOVE_ANY_GUESS if guessing is None else guessing + limit("INI001", "nats")):
        yield _too_high(first, guessing, vocab)
    yield from _too_low(log, first)


def _too_high(first: float, guessing: float | None, vocab: int | None) -> Finding:
    if guessing is not None and first > 1.9 * guessing:
        parts = round(first / guessing)
        if abs(first / guessing / parts - 1) <= limit("LOS007", "share_of_a_log"):
            return build_finding(
                "LOS007",
                f"The first loss is {first:.4g}, {parts} times ln {vocab} = {guessing:.4g}.",
                evidence("LOS007", "first loss / ln V", first / guessing),
                where="loss",
                cause=f"a sum over {parts} micro-batches, or tokens, where a mean is meant",
                confidence=0.8,
            )
    chance = (
        f"ln {vocab} = {guessing:.3f}" if guessing is not None and vocab else "12.5 nats at most"
    )
    return build_finding(
        "INI001",
        f"The first loss is {first:.4g}; guessing costs {chance}.",
        evidence("INI001", "first loss - ln V", first - (guessing or 12.5)),
        where="loss",
        cause="a sum where a mean is meant (over tokens or micro-batches), weights that are too "
        "large at the start, or a model that does not fit its tokenizer: `pellucid check` tells "
        "them apart",
        confidence=0.7,
    )


def _too_low(log: Log, first: float) -> Iterable[Finding]:
    """A loss of nearly nothing within one pass over the data."""
    if not log.epochs or log.epochs[-1][1] > 1.01 or first < limit("LOG012", "first"):
        return
    _, last = ends(log.losses, 0.1)
    if last < limit("LOG012", "nats"):
        yield build_finding(
            "LOG012",
            f"The loss fell from {first:.3f} to {last:.3g} within one pass over the data.",
            evidence("LOG012", "loss", last),
            where="loss",
            confidence=0.6,
        )


def _units(log: Log) -> Iterable[Finding]:
    """Training loss and held-out loss whose ratio is the same whole number all along."""
    losses = log.losses
    ratios: list[float] = []
    for step, value in log.held_out:
        near = [v for s, v in losses if s <= step][-5:]
        if near and math.isfinite(value) and value > 0:
            ratios.append(statistics.median(near) / value)
    if len(ratios) < 3:
        return
    ratio = statistics.median(ratios)
    parts = round(ratio)
    off = limit("LOS007", "share_of_a_log")
    if parts < 2 or any(abs(quotient / parts - 1) > 2 * off for quotient in ratios):
        return
    if abs(ratio / parts - 1) <= off:
        yield build_finding(
            "LOS007",
            f"The training loss is {parts} times the held-out loss, at every evaluation.",
            evidence("LOS007", "training loss / held-out loss", ratio),
            where="loss",
            cause=f"a sum over {parts} micro-batches (gradient_accumulation_steps) in the training "
            "loss; if gradients are scaled alike, the learning rate is too",
            confidence=0.85,
        )
