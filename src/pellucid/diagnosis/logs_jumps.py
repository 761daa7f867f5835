"""What a loss that leaves its path shows: falls, jumps, two curves that part, a resumed training.

Comes in: a `Log`. Goes out: findings. It does not know where the loss should be, only where it was.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from pellucid.diagnosis.finding import Finding, evidence, found, limit
from pellucid.diagnosis.history import Points
from pellucid.diagnosis.logs_log import Log, noise, values


def of_jumps(log: Log) -> list[Finding]:
    """Everything of the kind, in no order."""
    asked = (_fall, _jumps, _overfitted, _resumed)
    return [each for ask in asked for each in ask(log)]


def _fall(log: Log) -> Iterable[Finding]:
    """A loss that stood, and fell by more than half from one row to the next, for good."""
    losses = log.losses
    width = round(limit("LOG011", "points"))
    numbers = values(losses)
    for i in range(2 * width, len(numbers) - width):
        before, after = numbers[i - width : i], statistics.median(numbers[i : i + width])
        level = statistics.median(before)
        if after > limit("LOG011", "share") * level or level - after < limit("LOG011", "nats"):
            continue
        if statistics.median(numbers[i - 2 * width : i - width]) - level > 0.1 * (level - after):
            continue  # it was falling anyway
        step = losses[i][0]
        yield found(
            "LOG011",
            f"The loss was {level:.3f}, and from update {step} on it is {after:.3f}.",
            evidence("LOG011", "loss after / loss before", after / level),
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
        before = numbers[max(0, i - window) : i]
        level = statistics.median(before[-least:])
        least_share, spreads = limit("LOG003", "share"), limit("LOG003", "sd")
        bar = level + max(least_share * level, spreads * noise(before))
        if numbers[i] > bar and any(later <= bar for later in numbers[i + 1 :]):
            high.append(i)
    first = [i for n, i in enumerate(high) if n == 0 or i - high[n - 1] > 5]
    if not first:
        return
    steps = ", ".join(str(losses[i][0]) for i in first[:6]) + (", ..." if len(first) > 6 else "")
    yield found(
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
    before = [v for s, v in norms if s < step][-20:]
    near = [v for s, v in norms if step - 2 <= s <= step]
    told = (
        "a bad batch, steps that are too large, or a second moment that is out of date (beta2): "
        "replaying the batch tells them apart"
    )
    if len(before) < 5 or not near:
        return told
    ratio = max(near) / max(statistics.median(before), 1e-30)
    return f"{told}; the gradient norm was {ratio:.3g} times its median there"


def _overfitted(log: Log) -> Iterable[Finding]:
    """The held-out loss rises for good while the training loss falls."""
    curve = [(step, value) for step, value in log.held_out if math.isfinite(value)]
    if len(curve) < limit("LOG010", "evaluations"):
        return
    at, lowest = min(curve, key=lambda point: point[1])
    after = [value for step, value in curve if step > at]
    least = max(limit("LOG010", "nats"), limit("LOG010", "share") * lowest)
    if len(after) < 2 or min(after[-2:]) - lowest <= least:
        return
    trained = [value for step, value in log.losses if step <= at][-5:]
    now = values(log.losses)[-5:]
    if not trained or not now or statistics.median(now) > statistics.median(trained):
        return
    yield found(
        "LOG010",
        f"The held-out loss was {lowest:.3f} at update {at} and is {after[-1]:.3f}; the training "
        "loss went on falling.",
        evidence("LOG010", "held-out loss now - lowest", after[-1] - lowest),
        where=f"update {at}",
        step=at,
        cause="over-fitting: what is learnt after that update is these texts, and not the language",
        confidence=0.9,
    )


def _resumed(log: Log) -> Iterable[Finding]:
    """A loss that is higher after a training was taken up again than before."""
    for step in log.resumed:
        before = [value for s, value in log.losses if s < step][-10:]
        after = [value for s, value in log.losses if s >= step][:5]
        if len(before) < 3 or len(after) < 2:
            continue
        jump = statistics.median(after) - statistics.median(before)
        least = max(limit("LOG013", "nats"), limit("LOG013", "share") * statistics.median(before))
        if jump <= least or jump <= 3 * noise(before):
            continue
        yield found(
            "LOG013",
            f"Before update {step} the loss was {statistics.median(before):.3f}, after it was "
            f"taken up again {statistics.median(after):.3f}.",
            evidence("LOG013", "loss after - loss before", jump),
            where=f"update {step}",
            step=step,
            cause=_why_resumed(log.rate, step),
            confidence=0.8,
        )


def _why_resumed(rates: Points, step: int) -> str:
    before = [rate for s, rate in rates if s < step][-1:]
    after = [rate for s, rate in rates if s >= step][:1]
    if before and after and abs(after[0] - before[0]) > 0.2 * max(before[0], after[0]):
        return (
            f"the learning rate went from {before[0]:.3g} to {after[0]:.3g}: the schedule began "
            "anew, or at another step"
        )
    return "the optimiser's moments, the schedule or the place in the data were not loaded"
