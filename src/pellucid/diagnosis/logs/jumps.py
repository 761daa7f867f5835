"""Sudden changes of the loss: falls, jumps, over-fitting, a resumed training that lost state."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from pellucid.diagnosis.finding import Finding, build_finding, evidence, limit
from pellucid.diagnosis.history.history import Points
from pellucid.diagnosis.logs.statistics import Log, noise, values


def of_jumps(log: Log) -> list[Finding]:
    """Everything of the kind, in no order."""
    checks = (_fall, _jumps, _overfitted, _resumed)
    return [finding for ask in checks for finding in ask(log)]


def _fall(log: Log) -> Iterable[Finding]:
    """A loss that stood, and fell by more than half from one row to the next, for good."""
    losses = log.losses
    width = round(limit("LOG011", "points"))
    numbers = values(losses)
    for i in range(2 * width, len(numbers) - width):
        preceding, end = numbers[i - width : i], statistics.median(numbers[i : i + width])
        level = statistics.median(preceding)
        if end > limit("LOG011", "share") * level or level - end < limit("LOG011", "nats"):
            continue
        if statistics.median(numbers[i - 2 * width : i - width]) - level > 0.1 * (level - end):
            continue  # it was falling anyway
        step = losses[i][0]
        yield build_finding(
            "LOG011",
            f"The loss was {level:.3f}, and from update {step} on it is {end:.3f}.",
            evidence("LOG011", "loss after / loss before", end / level),
            where=f"update {step}",
            step=step,
            confidence=0.5,
        )
        return


def _jumps(log: Log) -> Iterable[Finding]:
    """Rows far above those before them, until the loss comes back; a jump that lasts counts once.

    One that has not come back by the last row is the end of the curve, and is told as such.
    """
    losses = log.losses
    window, least = round(limit("LOG003", "window")), 20
    numbers, high = values(losses), list[int]()
    for i in range(least, len(numbers)):
        preceding = numbers[max(0, i - window) : i]
        level = statistics.median(preceding[-least:])
        least_share, spreads = limit("LOG003", "share"), limit("LOG003", "sd")
        bar = level + max(least_share * level, spreads * noise(preceding))
        if numbers[i] > bar and any(later <= bar for later in numbers[i + 1 :]):
            high.append(i)
    first = [i for n, i in enumerate(high) if n == 0 or i - high[n - 1] > 5]
    if not first:
        return
    steps = ", ".join(str(losses[i][0]) for i in first[:6]) + (", ..." if len(first) > 6 else "")
    yield build_finding(
        "LOG003",
        f"{_times(len(first))} in {len(numbers)} rows, at update {steps}.",
        evidence("LOG003", "jumps", len(first)),
        where=f"update {losses[first[0]][0]}",
        step=losses[first[0]][0],
        cause=_why_jumps(log, losses[first[0]][0]),
        confidence=0.5,
    )


def _times(number: int) -> str:
    return "One jump" if number == 1 else f"{number} jumps"


def _why_jumps(log: Log, step: int) -> str:
    norms = [(s, v) for s, v in log.grad_norm if math.isfinite(v)]
    norms_before = [v for s, v in norms if s < step][-20:]
    near = [v for s, v in norms if step - 2 <= s <= step]
    cause = (
        "a bad batch, steps that are too large, or a second moment that is out of date (beta2): "
        "replaying the batch tells them apart"
    )
    if len(norms_before) < 5 or not near:
        return cause
    ratio = max(near) / max(statistics.median(norms_before), 1e-30)
    return f"{cause}; the gradient norm was {ratio:.3g} times its median there"


def _overfitted(log: Log) -> Iterable[Finding]:
    """The held-out loss rises for good while the training loss falls."""
    curve = [(step, value) for step, value in log.held_out if math.isfinite(value)]
    if len(curve) < limit("LOG010", "evaluations"):
        return
    at, lowest = min(curve, key=lambda point: point[1])
    later = [value for step, value in curve if step > at]
    least = max(limit("LOG010", "nats"), limit("LOG010", "share") * lowest)
    if len(later) < 2 or min(later[-2:]) - lowest <= least:
        return
    trained = [value for step, value in log.losses if step <= at][-5:]
    latest = values(log.losses)[-5:]
    if not trained or not latest or statistics.median(latest) > statistics.median(trained):
        return
    yield build_finding(
        "LOG010",
        f"The held-out loss was {lowest:.3f} at update {at} and is {later[-1]:.3f}; the training "
        "loss went on falling.",
        evidence("LOG010", "held-out loss now - lowest", later[-1] - lowest),
        where=f"update {at}",
        step=at,
        cause="over-fitting: what is learnt after that update is these texts, and not the language",
        confidence=0.9,
    )


def _resumed(log: Log) -> Iterable[Finding]:
    """A loss that is higher after a training was taken up again than before."""
    for step in log.resumed:
        losses_before = [value for s, value in log.losses if s < step][-10:]
        losses_after = [value for s, value in log.losses if s >= step][:5]
        if len(losses_before) < 3 or len(losses_after) < 2:
            continue
        jump = statistics.median(losses_after) - statistics.median(losses_before)
        least = max(
            limit("LOG013", "nats"), limit("LOG013", "share") * statistics.median(losses_before)
        )
        if jump <= least or jump <= 3 * noise(losses_before):
            continue
        yield build_finding(
            "LOG013",
            f"Before update {step} the loss was {statistics.median(losses_before):.3f}, after it "
            f"was taken up again {statistics.median(losses_after):.3f}.",
            evidence("LOG013", "loss after - loss before", jump),
            where=f"update {step}",
            step=step,
            cause=_why_resumed(log.rate, step),
            confidence=0.8,
        )


def _why_resumed(rates: Points, step: int) -> str:
    rates_before = [rate for s, rate in rates if s < step][-1:]
    rates_after = [rate for s, rate in rates if s >= step][:1]
    if (
        rates_before
        and rates_after
        and abs(rates_after[0] - rates_before[0]) > 0.2 * max(rates_before[0], rates_after[0])
    ):
        return (
            f"the learning rate went from {rates_before[0]:.3g} to {rates_after[0]:.3g}: "
            "the schedule began anew, or at another step"
        )
    return "the optimiser's moments, the schedule or the place in the data were not loaded"
